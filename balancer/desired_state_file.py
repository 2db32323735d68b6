"""`file:///absolute/path`: the desired state in a file that people can read, copy and keep in backups.

A replacement is atomic: whole new file beside the old one, fsync, rename, fsync of the folder; the file's mode stays.
One balancer per file: a lock on `<path>.lock` is held while the store is open and vanishes with the process. Edits
by hand are not watched: they show in GET and are applied at the next start. A file that cannot be read is never
written.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Self, TypeVar
from urllib.parse import unquote, urlsplit

from balancer.desired_state_document import MAX_DOCUMENT_BYTES, read_document, write_document
from balancer.desired_state_store import (
    RevisionSignal,
    StoredState,
    StoreRefused,
    StoreUnavailable,
    replacement,
)
from shared.desired_state import BalancerDesiredState

T = TypeVar("T")

_WAIT_SECONDS = 15.0
_EXAMPLE = "write file:///var/lib/steersman/state.json"


def path_of_url(url: str) -> str:
    """The absolute path that a `file://` address names. Raises StoreRefused with a hint."""
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/"):
        raise StoreRefused(f"the state file needs an absolute path with three slashes, without ~: {_EXAMPLE}")
    if parts.query or parts.fragment:
        raise StoreRefused("write ? and # in the path of the state file as %3F and %23")
    path = unquote(parts.path)
    if path.endswith("/") or "\0" in path:
        raise StoreRefused(f"the address of the state file names no file: {_EXAMPLE}")
    return path


class FileDesiredStateStore:
    """Made by `open`. File calls run in worker threads, one at a time."""

    def __init__(self, path: str, lock_descriptor: int) -> None:
        self._path = path
        self._lock_descriptor = lock_descriptor
        self._one_at_a_time = threading.Lock()
        self._changed = RevisionSignal()

    @classmethod
    async def open(cls, path: str) -> Self:
        """Take the lock and read the file once. Raises StoreRefused; then nothing was touched."""
        path = await asyncio.to_thread(os.path.realpath, path)  # renaming must not replace a symbolic link
        descriptor = await asyncio.to_thread(_lock, path)
        store = cls(path, descriptor)
        try:
            await store.load()
        except StoreUnavailable as problem:
            await store.aclose()
            raise StoreRefused(
                f"{problem}. The file was not touched: repair it, or move it away to start with the default state"
            ) from None
        except BaseException:
            await store.aclose()
            raise
        return store

    async def load(self) -> StoredState:
        return await self._in_thread(lambda: _read(self._path))

    async def replace(self, state: BalancerDesiredState, expected_revision: int | None) -> StoredState:
        loop = asyncio.get_running_loop()
        return await self._in_thread(
            lambda: self._write(loop, replacement(_read(self._path), state, expected_revision))
        )

    async def restore(self, held: StoredState) -> StoredState:
        loop = asyncio.get_running_loop()

        def restore_if_higher() -> StoredState:
            current = _read(self._path)
            return self._write(loop, held) if held.revision > current.revision else current

        return await self._in_thread(restore_if_higher)

    def wait_changes(self) -> AsyncGenerator[int, None]:
        return self._changed.listen()

    async def aclose(self) -> None:
        descriptor, self._lock_descriptor = self._lock_descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)  # gives the lock back; the lock file stays, removing it would race with the next owner

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """A caller that is cancelled leaves the thread running; the next one waits for it in its own thread."""

        def guarded() -> T:
            with self._one_at_a_time:
                try:
                    return work()
                except OSError as error:
                    raise _unavailable(self._path, error) from error

        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                return await asyncio.to_thread(guarded)
        except TimeoutError:
            raise StoreUnavailable(f"the disk of {self._path} did not answer in {_WAIT_SECONDS:g} s") from None

    def _write(self, loop: asyncio.AbstractEventLoop, stored: StoredState) -> StoredState:
        """In the thread, and so is the announcement: it is made even if the caller was cancelled meanwhile."""
        _replace_file(self._path, write_document(stored))
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._changed.announce, stored.revision)
        return stored


def _unavailable(path: str, error: OSError) -> StoreUnavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreUnavailable(f"the disk of the state file {path} is full", "the disk of the state database is full")
    reason = error.strerror or type(error).__name__
    return StoreUnavailable(f"the state file {path}: {reason}", f"the state database cannot be used ({reason})")


def _lock(path: str) -> int:
    try:
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except FileNotFoundError as error:
        raise StoreRefused(f"there is no folder {os.path.dirname(path)} for the state file: make it first") from error
    except OSError as error:
        raise StoreRefused(f"the lock file {path}.lock cannot be made: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise StoreRefused(
                f"another balancer uses {path}; give each its own file, or let both share a Redis"
            ) from None
        raise StoreRefused(f"{path}.lock cannot be locked: {error.strerror}") from error
    return descriptor


def _read(path: str) -> StoredState:
    """Opened without waiting: a pipe under this name must not hang the balancer."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StoreUnavailable(f"the state file {path} is not a regular file")
            content = file.read(MAX_DOCUMENT_BYTES + 1)
    except FileNotFoundError:
        content = b""
    return read_document(content, f"the state file {path}")


def _replace_file(path: str, content: bytes) -> None:
    """The lock makes us the only writer, so what a crash left of the temporary file can go."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.new")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                _copy_owner_and_mode(path, descriptor)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _fsync_folder(folder)


def _copy_owner_and_mode(path: str, descriptor: int) -> None:
    """Raises FileNotFoundError while there is no such file yet."""
    before = os.stat(path)
    with contextlib.suppress(PermissionError):  # another's file in a folder of ours: it becomes ours
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, before.st_mode & 0o7777)


def _fsync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
