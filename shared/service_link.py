"""The tasks between a process and its service manager: one keeps it informed, one reloads when it asks.

Both run on the event loop, so a loop that hangs sends no pings.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from shared.service_manager import ServiceFacts, ServiceManager, ServiceReporter

ReloadStep = Callable[[], Awaitable[None]]
"""Reads something again and takes it over, or logs why not. Never raises."""


@dataclass(frozen=True, slots=True)
class Supervision:
    """What a process gets from its command line's surroundings. The default: nobody watches, nothing reloads.

    `reload_asked` is set at each SIGHUP; `reload_steps` are the command's own, beside those of the process.
    """

    manager: ServiceManager | None = None
    reload_asked: asyncio.Event = field(default_factory=asyncio.Event)
    reload_steps: tuple[ReloadStep, ...] = ()


class ServiceLink:
    """`run` is one task for the life of the process. With `manager` None it only waits."""

    def __init__(
        self, manager: ServiceManager | None, look: Callable[[], ServiceFacts], clock: Callable[[], float]
    ) -> None:
        """`look`: the facts as of now; it must not block. `clock`: monotonic seconds."""
        self._manager = manager
        self._look = look
        self._clock = clock
        self._reporter = ServiceReporter(manager.watchdog_seconds if manager else None)
        self._is_stopping = False

    async def run(self) -> NoReturn:
        """Never returns. Cancelled: nothing more is told."""
        while self._manager is None:
            await asyncio.Event().wait()
        while True:
            self.tell_now()
            await asyncio.sleep(self._reporter.seconds_to_next_look())

    def tell_now(self) -> None:
        """Whatever is new."""
        if self._manager is None:
            return
        lines = self._reporter.assignments(self._look(), self._clock())
        if self._is_stopping:  # pings go on, so that a drain that hangs is noticed; the rest was said
            lines = [line for line in lines if line.startswith("WATCHDOG")]
        if lines and not self._manager.notify_socket.send(*lines):
            self._reporter.not_sent()

    def stopping(self, within_seconds: float) -> None:
        """Say that the process stops now and may take so long."""
        self._is_stopping = True
        if self._manager is not None:
            self._manager.tell_stopping(within_seconds)

    def reloading(self) -> None:
        """Say that settings are read again. While it starts or stops that is nobody's concern."""
        if self._manager is not None and self._is_serving:
            self._manager.tell_reloading(self._clock())

    def reloaded(self) -> None:
        """Say that this is over."""
        if self._manager is not None and self._is_serving:
            self._manager.tell_reloaded()

    @property
    def _is_serving(self) -> bool:
        return self._reporter.is_ready and not self._is_stopping


async def reload_when(asked: asyncio.Event, link: ServiceLink, steps: Sequence[ReloadStep]) -> NoReturn:
    """Each time `asked` is set: every step, in order, between the manager's two words. Never returns."""
    while True:
        await asked.wait()
        asked.clear()
        link.reloading()
        for step in steps:
            await step()
        link.reloaded()
