"""Memory that was freed goes back to the system.

glibc keeps it, in an arena for each thread that ever asked: after some exchanges of models an agent that holds no more
than before is larger by a twentieth. With another C library neither function does anything.
"""

import ctypes
import gc
from typing import Any

_M_ARENA_MAX = -8  # malloc.h
_ARENAS = 2


def share_arenas() -> None:
    """Let all threads allocate from a few arenas. Call before threads start."""
    if (set_option := _function("mallopt")) is not None:
        set_option(_M_ARENA_MAX, _ARENAS)


def give_back_freed_memory() -> None:
    """Find what only refers to itself, and return the pages that hold nothing. Blocks, and holds the interpreter, for
    some 0.1 s."""
    gc.collect()
    if (trim := _function("malloc_trim")) is not None:
        trim(0)


def _function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
