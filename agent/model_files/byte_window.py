"""Bounded reading of a file that may be hostile: every size is checked before a byte is read.

`pread` into a window, not mmap: a mapped file that somebody truncates while we read kills the process
with SIGBUS.
"""

import os
import stat
import struct
from types import TracebackType
from typing import Self

from agent.model_files.errors import (
    ModelFileMalformed,
    ModelFileMissing,
    ModelFileTruncated,
    ModelFileUnreadable,
)

WINDOW_BYTES = 1 << 18
READ_BUDGET_BYTES = 48 << 20
"""Most that one reading may take from the file. The largest vocabularies in use need about 16 MiB."""

_LENGTH = struct.Struct("<Q")


class ByteWindow:
    """A cursor over a regular file. Raises only `ModelFileError`s; holds at most one window of the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = _open_regular_file(path)
        try:
            self.file_bytes = os.fstat(self._descriptor).st_size
        except OSError as error:
            os.close(self._descriptor)
            raise ModelFileUnreadable(path, f"cannot be read: {error.strerror}") from error
        self.position = 0
        self._window = b""
        self._window_start = 0
        self._budget_bytes = READ_BUDGET_BYTES

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def take(self, length_bytes: int) -> bytes:
        """The next bytes. The caller bounds `length_bytes`; more than the file holds is a truncation."""
        self._require(length_bytes)
        begin = self.position - self._window_start
        if begin < 0 or begin + length_bytes > len(self._window):
            self._fill(max(length_bytes, WINDOW_BYTES))
            begin = 0
        self.position += length_bytes
        return self._window[begin : begin + length_bytes]

    def unpack(self, layout: struct.Struct) -> tuple[int | float | bool, ...]:
        """The next fields in `layout`."""
        return layout.unpack(self.take(layout.size))

    def skip(self, length_bytes: int) -> None:
        """Move on without reading."""
        self._require(length_bytes)
        self.position += length_bytes

    def skip_strings(self, count: int) -> None:
        """Move past `count` length-prefixed strings: the only loop over single items, one unpack for each."""
        unpack_length = _LENGTH.unpack_from
        while count > 0:
            # The last window stays usable for `take`; a string may end far outside of it, or of the file.
            self._require(_LENGTH.size)
            self._fill(WINDOW_BYTES)
            window = self._window
            last_start = len(window) - _LENGTH.size
            offset = walked = 0
            for walked in range(1, count + 1):  # noqa: B007 (used after the loop)
                offset += 8 + unpack_length(window, offset)[0]
                if offset > last_start:
                    break
            count -= walked
            self.position = self._window_start + offset
            self._require(0)

    def _require(self, length_bytes: int) -> None:
        if self.position + length_bytes > self.file_bytes:
            raise ModelFileTruncated(
                self._path,
                f"its header runs past its end ({self.file_bytes} bytes): it is incomplete",
            )

    def _fill(self, wanted_bytes: int) -> None:
        """Load the window at the cursor. A file that shrinks meanwhile is a truncated one."""
        wanted_bytes = min(wanted_bytes, self.file_bytes - self.position)
        if wanted_bytes > self._budget_bytes:
            raise ModelFileMalformed(self._path, "the header is larger than that of any real model")
        self._budget_bytes -= wanted_bytes
        try:
            window = os.pread(self._descriptor, wanted_bytes, self.position)
        except OSError as error:
            raise ModelFileUnreadable(self._path, f"cannot be read: {error.strerror}") from error
        if len(window) < wanted_bytes:
            raise ModelFileTruncated(self._path, "the file became shorter while it was read")
        self._window = window
        self._window_start = self.position


def _open_regular_file(path: str) -> int:
    """A descriptor of a regular file. Looks before it opens: a device may act on that, a pipe may block."""
    try:
        _require_regular(path, os.stat(path).st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelFileMissing(path, "there is no such file") from error
    except PermissionError as error:
        raise ModelFileUnreadable(path, "no permission to read the file") from error
    except OSError as error:
        raise ModelFileUnreadable(path, f"cannot be opened: {error.strerror}") from error
    except ValueError as error:
        raise ModelFileUnreadable(path, "the path holds characters that no file name can have") from error
    try:
        _require_regular(path, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise ModelFileUnreadable(path, "is a directory; name the .gguf file in it")
    if not stat.S_ISREG(mode):
        raise ModelFileUnreadable(path, "is not a regular file")
