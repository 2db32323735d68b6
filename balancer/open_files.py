"""How many connections the process may hold: every one is an open file."""

import resource
from typing import Final

# The usual limit of 1,024 lets one client's idle connections lock out agents and operators. More than this many
# would not fit into memory anyway.
MOST_OPEN_FILES: Final = 65_536


def allow_many_open_files() -> int:
    """Raise the soft limit as far as the system's hard limit allows, up to MOST_OPEN_FILES; returns what holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft
