"""Copies of cells in host memory, by llama.cpp's sequence states.

What its source says and no document does: only cells of ids below `n_seq_max` are written in a form that can be read
again, others without their sequence. A sliding window leaves out what it no longer sees, so a size is checked before
a copy is trusted. Reading fails in order (returns 0, the cells as before) when there is no room.
"""

import ctypes

import llama_cpp
import numpy as np

from agent.core.backend import SavedCells
from agent.llama.context import LlamaContext

_TO_THE_END = -1


class CellCopies:
    """Of one context. `through` is an id below `n_seq_max` that holds nothing, before and after each call."""

    def __init__(self, context: LlamaContext) -> None:
        self._context = context
        self._sizes: tuple[int, int] | None = None

    def save(self, source: int, start: int, stop: int, through: int) -> SavedCells | None:
        """What the cells of positions [start, stop) hold; None when the memory has forgotten some of it."""
        pointer, memory = self._context.pointer, self._context.memory
        first, more = self._sizes or self.measure(source, through)
        expected = first + (stop - start - 1) * more
        llama_cpp.llama_memory_seq_cp(memory, source, through, start, stop)
        try:
            if llama_cpp.llama_state_seq_get_size(pointer, through) != expected:
                return None
            content = np.empty(expected, dtype=np.uint8)
            written = llama_cpp.llama_state_seq_get_data(pointer, _address(content), expected, through)
        except MemoryError:
            return None
        finally:
            llama_cpp.llama_memory_seq_rm(memory, through, 0, _TO_THE_END)
        return SavedCells(start, stop, expected, content) if written == expected else None

    def restore(self, saved: SavedCells, target: int, stop: int, through: int) -> bool:
        """Append to `target` what it lacks up to `stop`; False when the memory has no room."""
        pointer, memory = self._context.pointer, self._context.memory
        held = llama_cpp.llama_memory_seq_pos_max(memory, target) + 1
        read = llama_cpp.llama_state_seq_set_data(pointer, _address(saved.content), saved.size_bytes, through)
        if read == saved.size_bytes:
            llama_cpp.llama_memory_seq_cp(memory, through, target, held, stop)
        llama_cpp.llama_memory_seq_rm(memory, through, 0, _TO_THE_END)
        return bool(read == saved.size_bytes)

    def measure(self, source: int, through: int) -> tuple[int, int]:
        """Learn from a sequence of two tokens or more what a copy takes: bytes of one token, and of each more."""
        one, two = (self._size(source, 0, stop, through) for stop in (1, 2))
        self._sizes = one, two - one
        return self._sizes

    def _size(self, source: int, start: int, stop: int, through: int) -> int:
        memory = self._context.memory
        llama_cpp.llama_memory_seq_cp(memory, source, through, start, stop)
        size = llama_cpp.llama_state_seq_get_size(self._context.pointer, through)
        llama_cpp.llama_memory_seq_rm(memory, through, 0, _TO_THE_END)
        return int(size)


def _address(content: "np.ndarray[tuple[int], np.dtype[np.uint8]]") -> "ctypes._Pointer[ctypes.c_uint8]":
    return content.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
