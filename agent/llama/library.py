"""The process-wide part of llama.cpp: one initialisation, and its log lines in ours.

llama.cpp keeps one log callback for the whole process. Ours is a function of this module, so that it lives as long as
the process: a collected callback would be a jump to freed memory at the next log line.
"""

import ctypes
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import llama_cpp

logger = logging.getLogger("agent.llama.cpp")

MAX_REASON_LINES = 5
_M_MMAP_THRESHOLD = -3  # malloc.h of glibc
_LARGE_BLOCK_BYTES = 4 * 1024 * 1024  # above anything that a step allocates, below the KV cache of any real model
_ERROR_LEVEL = 4  # GGML_LOG_LEVEL_ERROR (ggml.h); all below is noise to an operator


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _log(level: int, text: bytes | None, _user_data: ctypes.c_void_p | None) -> None:
    line = (text or b"").decode("utf-8", errors="replace").rstrip()
    if line.strip("."):  # load progress is printed as dots
        logger.log(logging.WARNING if level == _ERROR_LEVEL else logging.DEBUG, "%s", line)


def initialise_library() -> None:
    """Make llama.cpp ready and quiet. Cheap and idempotent: everything that opens a model calls it."""
    llama_cpp.llama_log_set(_log, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    _map_large_blocks()


def _map_large_blocks() -> None:
    """Let what a model held go back to the system when it is freed.

    glibc maps a large block on its own, but raises the bound for that up to 32 MiB whenever such a block is freed.
    Then KV caches come from the arenas, and as each engine is a new thread, with every swap perhaps from another one
    that keeps the freed 20 MiB. A bound that is set is not raised.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # other C libraries do not have it, nor the habit
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


def version() -> str:
    """The version of the binding, which pins that of llama.cpp."""
    return str(llama_cpp.__version__)


@contextmanager
def collected_errors() -> Iterator[list[str]]:
    """The error lines that llama.cpp logs in this thread inside the block: why it is about to return NULL."""
    lines: list[str] = []
    handler = _ErrorCollector(lines, threading.get_ident())
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


class _ErrorCollector(logging.Handler):
    def __init__(self, lines: list[str], thread_id: int) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines
        self._thread_id = thread_id

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread_id and len(self._lines) < MAX_REASON_LINES:
            self._lines.append(record.getMessage())


def reason(lines: list[str]) -> str:
    """The first collected line without the function name in front of it; a stopgap when nothing was logged."""
    if not lines:
        return "llama.cpp gave no reason"
    _, separator, rest = lines[0].partition(": ")
    return rest if separator else lines[0]
