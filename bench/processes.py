"""Processes of a measurement: started on free ports of the loopback, logs kept, always ended."""

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Process:
    """A child with its log file; leaving the context ends it."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.command = [str(word) for word in command]
        self._log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def command_line(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.command)

    def check_alive(self) -> None:
        """Raises RuntimeError with the end of the log when the process has ended."""
        if self._child.poll() is not None:
            tail = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.command_line} ended with {self._child.returncode}:\n{tail}")

    def stop(self, patience_seconds: float = 15.0) -> None:
        """Ask, wait, then kill."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()

    def cpu_seconds(self) -> float:
        """User plus system time so far, from /proc."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """Resident memory now, from /proc."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def wait_until(condition: object, what: str, seconds: float, watched: Sequence[Process] = ()) -> None:
    """Call `condition()` until it is true. Raises TimeoutError, or RuntimeError when a watched process ended."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        for process in watched:
            process.check_alive()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)
