"""Talks to the service manager that started this process (systemd; sd_notify(3)): what is told, and when.

`ServiceReporter` decides and is pure; `NotifySocket` sends, and never blocks or raises: a service does not fail because
nobody listens. Without `NOTIFY_SOCKET` in the environment there is nobody to tell, and nothing of this runs.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

MAX_STATUS_CHARACTERS: Final = 200
STATUS_EVERY_SECONDS: Final = 2.0
STARTING_EVERY_SECONDS: Final = 0.1
EXTEND_EVERY_SECONDS: Final = 5.0
EXTENSION_SECONDS: Final = 30.0
"""How long the manager goes on waiting for READY after the last word of a process that is still starting."""


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """A process at one moment.

    silent_seconds: for how long that which has to advance (an engine with work) has not; 0: nothing has to.
    load: what grows while a model is loaded, None while none is; longest_load_silence_seconds: how long it may stand.
    """

    status: str
    is_ready: bool
    silent_seconds: float = 0.0
    load: float | None = None
    longest_load_silence_seconds: float = 600.0


class ServiceReporter:
    """What to tell the manager next. All times are monotonic seconds; `watchdog_seconds` None: it has no watchdog."""

    def __init__(self, watchdog_seconds: float | None) -> None:
        self._watchdog_seconds = watchdog_seconds
        self._limit_seconds = watchdog_seconds  # the one that the manager knows
        self._status: str | None = None
        self._is_ready = False
        self._was_refused = False
        self._pinged_at = float("-inf")
        self._extended_at = float("-inf")
        self._load: float | None = None
        self._load_moved_at = 0.0

    def __repr__(self) -> str:
        return f"<ServiceReporter {'ready' if self._is_ready else 'starting'}: {self._status}>"

    @property
    def is_ready(self) -> bool:
        """Whether the manager was told so."""
        return self._is_ready

    def seconds_to_next_look(self) -> float:
        """How long the facts may be left alone."""
        if not self._is_ready and not self._was_refused:
            return STARTING_EVERY_SECONDS
        if self._watchdog_seconds is None:
            return STATUS_EVERY_SECONDS
        return min(STATUS_EVERY_SECONDS, self._watchdog_seconds / 4)

    def assignments(self, facts: ServiceFacts, now: float) -> list[str]:
        """Lines for one message; empty: nothing is new. What could not be sent is forgotten by `not_sent`."""
        self._was_refused = False
        lines: list[str] = []
        status = one_line(facts.status)
        if status != self._status:
            self._status = status
            lines.append(f"STATUS={status}")
        if facts.is_ready and not self._is_ready:
            self._is_ready = True
            lines.append("READY=1")
        elif not self._is_ready and now - self._extended_at >= EXTEND_EVERY_SECONDS:
            self._extended_at = now
            lines.append(f"EXTEND_TIMEOUT_USEC={microseconds(EXTENSION_SECONDS)}")
        return lines + self._watchdog_lines(facts, now)

    def not_sent(self) -> None:
        """The last message did not leave: what it said is still to be told."""
        self._was_refused = True
        self._status = None
        self._is_ready = False
        self._limit_seconds = None if self._watchdog_seconds is None else 0.0
        self._pinged_at = self._extended_at = float("-inf")

    def _watchdog_lines(self, facts: ServiceFacts, now: float) -> list[str]:
        """A ping every half of the manager's limit, if what has to advance did so within that half.

        Looked at each quarter, so that a single long step costs a late ping and not two. While a model is loaded there
        is no engine; the load itself has to move then, under a limit of its own: a driver that compiles kernels or a
        machine that swaps may hold this process up for longer than any step.
        """
        usual = self._watchdog_seconds
        if usual is None:
            return []
        if facts.load != self._load:
            self._load, self._load_moved_at = facts.load, now
        limit, silent_seconds = usual, facts.silent_seconds
        if facts.load is not None:
            limit, silent_seconds = max(usual, facts.longest_load_silence_seconds), now - self._load_moved_at
        lines = []
        if limit != self._limit_seconds:
            self._limit_seconds = limit
            self._pinged_at = float("-inf")  # the new limit counts from a ping
            lines.append(f"WATCHDOG_USEC={microseconds(limit)}")
        is_due = now - self._pinged_at >= usual / 2 - usual / 50  # timers may be a little early
        if is_due and silent_seconds <= limit / 2:
            self._pinged_at = now
            lines.append("WATCHDOG=1")
        return lines


class NotifySocket:
    """Where the manager listens. `send` returns whether it left; it neither waits nor raises."""

    def __init__(self, address: str) -> None:
        """`address`: an absolute path, or an abstract name behind `@`. Raises OSError."""
        self._address = address if address.startswith("/") else f"\0{address[1:]}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)

    def send(self, *assignments: str) -> bool:
        """One datagram with these lines. False: the manager's queue is full, or nobody is there."""
        try:
            self._socket.sendto("\n".join(assignments).encode("utf-8", "replace"), self._address)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Idempotent."""
        self._socket.close()


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """Whoever started this process and wants to hear of it. `watchdog_seconds` None: it does not watch for hangs."""

    notify_socket: NotifySocket
    watchdog_seconds: float | None

    @classmethod
    def of(cls, environment: Mapping[str, str], process_id: int) -> "ServiceManager | None":
        """From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID (sd_watchdog_enabled(3)); None: nobody is there."""
        address = environment.get("NOTIFY_SOCKET", "")
        if address[:1] not in ("/", "@") or len(address) < 2:  # other families (vsock) are for whole machines
            return None
        with suppress(OSError):
            return cls(NotifySocket(address), _watchdog_seconds(environment, process_id))
        return None

    def tell_stopping(self, within_seconds: float) -> None:
        """The process stops in order, which may take this long, however short the unit's TimeoutStopSec is."""
        self.notify_socket.send("STOPPING=1", "STATUS=stopping", f"EXTEND_TIMEOUT_USEC={microseconds(within_seconds)}")

    def tell_reloading(self, now: float) -> None:
        """Settings are read again; `tell_reloaded` has to follow."""
        self.notify_socket.send("RELOADING=1", f"MONOTONIC_USEC={microseconds(now)}")

    def tell_reloaded(self) -> None:
        """Settings were read again, or kept where they were refused; the log says which."""
        self.notify_socket.send("READY=1")


def one_line(text: str) -> str:
    """A status that fits on one line and into one message, whatever a peer put into a name."""
    cleaned = "".join(one if one.isprintable() else " " for one in text)
    return cleaned if len(cleaned) <= MAX_STATUS_CHARACTERS else f"{cleaned[: MAX_STATUS_CHARACTERS - 3]}..."


def microseconds(seconds: float) -> int:
    """As the protocol counts."""
    return int(seconds * 1_000_000)


def _watchdog_seconds(environment: Mapping[str, str], own_process_id: int) -> float | None:
    limit, meant_for = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not limit.isdecimal() or not limit.isascii() or int(limit) == 0:
        return None
    if meant_for and meant_for != str(own_process_id):
        return None
    return int(limit) / 1_000_000
