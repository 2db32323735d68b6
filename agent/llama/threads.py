"""How many threads to compute with: more than there are cores is much slower, since they meet at barriers."""

import os


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
