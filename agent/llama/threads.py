"""How many threads to compute with: more than there are cores is much slower, since they meet at barriers."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def usable_cores() -> int:
    """Physical cores this process may run on, at least 1. Two hardware threads of a core count once."""
    allowed = os.sched_getaffinity(0)
    cores = {_siblings(cpu) for cpu in allowed}
    return max(1, len(cores))


def _siblings(cpu: int) -> str:
    try:
        with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return str(cpu)  # not told: every logical CPU counts


def on_a_passing_thread(compute: Callable[[], Result]) -> Result:
    """Run `compute`, which loads a model or decodes, on a thread that ends with it; returns or raises what it does.

    OpenMP keeps a team of threads for each thread that ever computed, until that thread ends. With more of them than
    cores it stops spinning at barriers and sleeps instead, a few hundred times a token: a warm-up, or a load that
    repacks weights, on a worker thread that lives on makes every later step of the engine's thread half as long again
    (gcc's libgomp, two cores, one stream).
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="model load") as passing:
        return passing.submit(compute).result()
