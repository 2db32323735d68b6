"""`steersman demo` as a person runs it: a process, what it printed so far, and the two processes that it starts."""

import os
import shlex
import signal
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.fleet_process import FleetProcess

DEADLINE_SECONDS = 120.0


class DemoProcess(FleetProcess):
    """Its log is what the person sees."""

    def __init__(self, log_path: Path, *flags: str) -> None:
        # One thread, as in `RunningFleet.add_agent`: on a busy machine two wait for each other.
        super().__init__(log_path, "demo", *flags, STEERSMAN_AGENT_THREADS="1")
        self._seen: dict[str, int] = {}

    def wait_printed(self, text: str) -> str:
        """All that it printed, once that holds `text`. Raises AssertionError."""
        self._wait(lambda: text in self.log, f"it does not print {text!r}")
        return self.log

    def wait_children(self, count: int) -> dict[str, int]:
        """Ids of the processes that it started, by subcommand, once there are `count`. Raises AssertionError."""
        found: dict[str, int] = {}

        def are_there() -> bool:
            found.update(_children_of(self.pid))
            return len(found) == count

        self._wait(are_there, f"it has not {count} processes")
        self._seen.update(found)
        return found

    def end(self, *, is_asked: bool = False) -> None:
        """End it and, should it have left them, the processes that it started."""
        super().end(is_asked=is_asked)
        for process_id in self._seen.values():
            if runs(process_id):
                os.kill(process_id, signal.SIGKILL)

    def _wait(self, is_true: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not is_true():
            assert self.exit_status is None, f"it ended early:\n{self.log}"
            assert time.monotonic() < deadline, f"{complaint}:\n{self.log}"
            time.sleep(0.02)


@contextmanager
def running_demo(folder: Path, *flags: str) -> Iterator[DemoProcess]:
    """The demo, started as from a terminal, where Ctrl-C and hanging up are not ignored even if they are here. Ended
    afterwards."""
    interrupt_here = signal.signal(signal.SIGINT, signal.default_int_handler)
    hangup_here = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        demo = DemoProcess(folder / "demo.log", *flags)
    finally:
        signal.signal(signal.SIGINT, interrupt_here)
        signal.signal(signal.SIGHUP, hangup_here)
    try:
        yield demo
    finally:
        demo.end()


def runs(process_id: int) -> bool:
    """Whether there is such a process that has not ended."""
    return _state_of(Path(f"/proc/{process_id}")) not in "ZX"


def wait_ended(process_ids: Iterable[int]) -> None:
    """Until none of them runs. Raises AssertionError."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while any(runs(process_id) for process_id in process_ids):
        assert time.monotonic() < deadline, "they go on"
        time.sleep(0.02)


def freeze(process_id: int) -> None:
    """Stop a process, and wait until each of its threads has: one that still runs would take the next signal."""
    os.kill(process_id, signal.SIGSTOP)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not all(_state_of(task) == "T" for task in Path(f"/proc/{process_id}/task").iterdir()):
        assert time.monotonic() < deadline, "it does not stop"
        time.sleep(0.01)


def wait_told_to_end(process_id: int) -> None:
    """Until a frozen process has a SIGTERM waiting for it. Raises AssertionError."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not _pending_signals(process_id) >> (signal.SIGTERM - 1) & 1:
        assert time.monotonic() < deadline, "nobody told it to end"
        time.sleep(0.01)


def curl(command_line: str) -> tuple[int, bytes]:
    """Status and body of what a printed `curl` line asks for. Raises AssertionError for a flag it does not know."""
    url, headers, body = "", {}, None
    words = iter(shlex.split(command_line)[1:])
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(":")
            headers[name] = value.strip()
        elif word == "-d":
            body = next(words).encode()
        elif word != "-N":
            assert not word.startswith("-"), f"unknown flag {word} in: {command_line}"
            url = word
    request = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
        return answer.status, answer.read()


def _children_of(process_id: int) -> dict[str, int]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # Between fork and exec a child still shows its parent's command line.
        for name in ("balancer", "agent"):
            if parent == process_id and name.encode() in words:
                found[name] = int(folder.name)
    return found


def _state_of(folder: Path) -> str:
    """The letter of a process or thread in /proc; X when it is gone."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def _pending_signals(process_id: int) -> int:
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("ShdPnd:"):
            return int(line.split()[1], 16)
    raise AssertionError("no ShdPnd in /proc")
