"""Versions that both sides exchange when a link is made."""

from importlib import metadata
from typing import Final

PROTOCOL_VERSION = 5
"""Grows with every change of a message that an older peer would refuse (all of them refuse unknown fields)."""


def _read_software_version() -> str:
    try:
        return metadata.version("steersman")
    except metadata.PackageNotFoundError:
        return "unknown"


# Read once, at import: it is a look into folders, and every greeting of a link names it from within a loop.
_SOFTWARE_VERSION: Final = _read_software_version()


def software_version() -> str:
    """The installed version of the distribution; `unknown` when it runs from a bare source tree."""
    return _SOFTWARE_VERSION
