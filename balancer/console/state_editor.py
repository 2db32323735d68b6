"""The desired state in somebody's editor: a private copy, read back when the editor has ended."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from balancer.console.errors import ConsoleError, WrongUsage

FILE_NAME: Final = "desired-state.json"
MAX_STATE_BYTES: Final = 16 * 1024 * 1024


class EditedFile:
    """In a folder that nobody else can look into, since a template may be nobody else's business."""

    def __init__(self, text: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="steersman-state-"))
        self.path: Final = self._folder / FILE_NAME
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self) -> str:
        """What the editor left there. Raises WrongUsage."""
        return read_bounded(self.path)

    def holds(self, text: str) -> bool:
        """Whether it is still there and unchanged, or gone."""
        try:
            return self.read() == text
        except WrongUsage:
            return not self.path.exists()

    def remove(self) -> None:
        """Once what is in it is stored, or not wanted."""
        shutil.rmtree(self._folder, ignore_errors=True)


def editor_of(environment: Mapping[str, str]) -> list[str]:
    """`$VISUAL`, `$EDITOR` or vi, with its arguments. Raises WrongUsage."""
    line = environment.get("VISUAL") or environment.get("EDITOR") or "vi"
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    if not words:
        raise WrongUsage(f"$VISUAL or $EDITOR is no command line: {line!r}")
    return words


def edit(editor: list[str], path: Path) -> None:
    """Blocks until the editor has ended; Ctrl-C is the editor's. Raises ConsoleError when it cannot start or fails."""
    try:
        with _deaf_to_interrupts():
            status = subprocess.run([*editor, str(path)], check=False).returncode
    except OSError as error:
        raise WrongUsage(
            f"the editor {editor[0]!r} cannot be started ({error.strerror}): name another with EDITOR=..."
        ) from None
    if status != 0:
        raise ConsoleError(f"the editor {editor[0]!r} ended with {status}: nothing was changed")


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """The terminal interrupts all of us. A handler that does nothing, unlike none, is not passed on to the editor."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def read_bounded(path: Path) -> str:
    """A whole text file. Raises WrongUsage."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_STATE_BYTES + 1)
    except OSError as error:
        raise WrongUsage(f"{path} cannot be read ({error.strerror})") from None
    return decoded(content, str(path))


def decoded(content: bytes, name: str) -> str:
    """Within bounds. Raises WrongUsage."""
    if len(content) > MAX_STATE_BYTES:
        raise WrongUsage(f"{name} is larger than {MAX_STATE_BYTES} bytes; it is no desired state")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUsage(f"{name} is not UTF-8 text") from None
