"""What tells a file apart from what stood in its place before, without reading it."""

import contextlib
import os
from collections.abc import Iterable

FileStamps = tuple[tuple[int, ...], ...]


def stamps_of(paths: Iterable[str]) -> FileStamps:
    """Size and what changes with the content, of each file that is there."""
    stamps = []
    for path in paths:
        with contextlib.suppress(OSError):
            found = os.stat(path)
            stamps.append((found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev))
    return tuple(stamps)
