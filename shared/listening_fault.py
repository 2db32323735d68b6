"""Why an address cannot be listened on, and what to do about it. Pure."""

import errno
import os
from collections.abc import Mapping
from typing import Final

_WORDS: Final[Mapping[int, str]] = {
    errno.EADDRINUSE: "the port is in use; does another {program} run here?",
    errno.EADDRNOTAVAIL: "this host has no such address.",
    errno.EACCES: "this user may not take that port; below 1024 they are root's.",
}


def listening_fault(error: OSError, program: str, flag: str) -> str:
    """To stand behind the address: asyncio's own words repeat it. `flag`: where another is given."""
    number = error.errno or 0
    if number in _WORDS:
        words = _WORDS[number].format(program=program)
    else:  # a name that cannot be resolved has a negative number
        words = f"{os.strerror(number) if number > 0 else error.strerror or error}."
    return f"{words} {flag} HOST:PORT takes another"
