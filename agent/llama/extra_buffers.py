"""Whether weights may be repacked for this processor, which AMX needs: on some builds that ends the process.

GCC before 13 drops the stores that fill the tile configuration (it believes `_tile_loadconfig` to read eight bytes of
64), unless it is told to keep stores (`-fno-tree-dse -fno-dse`, as the Makefile does). Such a build gets SIGILL at its
first matrix product of two rows. Which it is cannot be asked, so another process tries it.
"""

import functools
import logging
import sys

import llama_cpp

from agent.llama.errors import ModelCannotBeLoaded
from agent.llama.trial_process import run_bounded

logger = logging.getLogger("agent.llama")

PROBE_SECONDS = 60.0
PROBE_BYTES = 1 << 30
PROBE = (sys.executable, "-P", "-m", "agent.llama.amx_probe")


@functools.cache
def extra_buffers_work() -> bool:
    """Asked once per process. Takes half a second where the build and the processor know AMX, else nothing."""
    if b"AMX_INT8 = 1" not in llama_cpp.llama_print_system_info():
        return True
    works = survives(PROBE)
    if not works:
        logger.warning(
            "the AMX kernels of this llama.cpp end the process, so they are left out, and it is several times slower "
            "than it could be; compile it anew with CFLAGS and CXXFLAGS of '-fno-tree-dse -fno-dse' (docs/gpu.md)"
        )
    return works


def survives(command: tuple[str, ...]) -> bool:
    """Whether it ends with status 0, in bounded time and memory."""
    try:
        status, _ = run_bounded(command, lambda: True, PROBE_BYTES, PROBE_SECONDS)
    except ModelCannotBeLoaded:  # no process could be started
        return False
    return status == 0
