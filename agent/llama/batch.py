"""One llama_batch for the life of a context, its arrays in numpy: filled by slices, never given to llama_batch_free."""

import ctypes
from typing import Any

import llama_cpp
import numpy as np

from agent.core.backend import BatchPlan


class LlamaBatch:
    """Room for `capacity` rows. The numpy arrays own the memory that the C structure points into."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._tokens = np.zeros(capacity, dtype=np.int32)
        self._positions = np.zeros(capacity, dtype=np.int32)
        self._sequence_ids = np.zeros(capacity, dtype=np.int32)
        self._wants_logits = np.zeros(capacity, dtype=np.int8)
        # Each row belongs to one sequence; entry i of the pointer array is the address of its id.
        self._sequence_counts = np.ones(capacity, dtype=np.int32)
        address = self._sequence_ids.ctypes.data
        self._sequence_pointers = np.arange(address, address + 4 * capacity, 4, dtype=np.uintp)
        self._counting = np.arange(capacity, dtype=np.int32)
        self.structure = llama_cpp.llama_batch(
            n_tokens=0,
            token=_pointer(self._tokens, ctypes.POINTER(llama_cpp.llama_token)),
            embd=None,
            pos=_pointer(self._positions, ctypes.POINTER(llama_cpp.llama_pos)),
            n_seq_id=_pointer(self._sequence_counts, ctypes.POINTER(ctypes.c_int32)),
            seq_id=_pointer(self._sequence_pointers, ctypes.POINTER(ctypes.POINTER(llama_cpp.llama_seq_id))),
            logits=_pointer(self._wants_logits, ctypes.POINTER(ctypes.c_int8)),
        )

    def fill(self, plan: BatchPlan) -> int:
        """Lay the plan out. Returns how many rows want logits. The caller has checked that it fits."""
        start = outputs = 0
        for run in plan.runs:
            count = len(run.tokens)
            end = start + count
            self._tokens[start:end] = run.tokens
            np.add(self._counting[:count], run.first_position, out=self._positions[start:end])
            self._sequence_ids[start:end] = run.sequence_id
            self._wants_logits[start:end] = 0
            if run.wants_logits:
                self._wants_logits[end - run.wants_logits : end] = 1
                outputs += run.wants_logits
            start = end
        self.structure.n_tokens = start
        return outputs


def _pointer(array: np.ndarray[Any, Any], kind: Any) -> Any:
    return ctypes.cast(array.ctypes.data, kind)
