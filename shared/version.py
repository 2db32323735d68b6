"""Versions that both sides exchange when a link is made."""

from importlib import metadata

PROTOCOL_VERSION = 1
"""Grows with every change of a message that an older peer would refuse (all of them refuse unknown fields)."""


def software_version() -> str:
    """The installed version of the distribution; `unknown` when it runs from a bare source tree."""
    try:
        return metadata.version("steersman")
    except metadata.PackageNotFoundError:
        return "unknown"
