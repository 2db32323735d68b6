"""`steersman top`: follows a balancer's streams, reads its numbers, and draws; reconnects for as long as it runs."""

import asyncio
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from balancer.console.command import run
from balancer.console.errors import EXIT_DONE, ConsoleError, WrongUsage
from balancer.console.fleet_snapshot import Fleet, Readiness
from balancer.console.management_client import ManagementClient, management_client
from balancer.console.metrics_reading import read_metrics
from balancer.console.settings import TOP, TopSettings
from balancer.console.status import BUFFERED_PATH, COLUMNS_OF_A_PIPE, FLEET_PATH, READY_PATH, strange_fleet
from balancer.console.top_view import Picture, frame

Record = TypeVar("Record", bound=BaseModel)

METRICS_PATH: Final = "/metrics"
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 5.0
ROWS_OF_A_PIPE: Final = 1000
NUMBERS: Final = "numbers"

_ENTER: Final = "\x1b[?1049h\x1b[?25l"  # the other screen, so that the shell's lines are there again; no cursor
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K\r\n"
_CLEAR_BELOW: Final = "\x1b[J"


def main(arguments: list[str]) -> int:
    """Draw until Ctrl-C, which is 0; 2: wrong usage; 3: no balancer answered at the start."""
    return run(TOP, TopSettings, arguments, lambda settings: asyncio.run(_top(settings)), interrupted_status=EXIT_DONE)


async def _top(settings: TopSettings) -> int:
    if not settings.once and not sys.stdout.isatty():
        raise WrongUsage("standard output is no terminal; `steersman top --once` prints one picture")
    async with management_client(settings) as client:
        view = LiveView(client, settings.interval_seconds)
        await view.read_once()  # an address that is wrong is said at once, not after a while of trying
        if settings.once:
            await asyncio.sleep(settings.interval_seconds)
            await view.read_numbers()
            size = shutil.get_terminal_size((COLUMNS_OF_A_PIPE, 24)).columns, ROWS_OF_A_PIPE
            print("\n".join(view.lines(size, since_start=True)))
            return EXIT_DONE
        with _other_screen():
            await _until_told_to_stop(view)
    return EXIT_DONE


async def _until_told_to_stop(view: "LiveView") -> None:
    """Ctrl-C cancels the whole command; SIGTERM ends it in the same order, so that the terminal is left as it was."""
    following = asyncio.create_task(view.follow(), name="live view")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, following.cancel)
    with suppress(asyncio.CancelledError):
        await following


class LiveView:
    """The picture and those who keep it up to date."""

    def __init__(self, client: ManagementClient, interval_seconds: float) -> None:
        self._client = client
        self._interval_seconds = interval_seconds
        self._changed = asyncio.Event()
        self.picture = Picture(client.address)

    async def read_once(self) -> None:
        """Everything, without streams. Raises ConsoleError."""
        self._take_fleet(await self._client.document(FLEET_PATH))
        self._take_waiting(await self._client.document(BUFFERED_PATH))
        await self.read_numbers()

    async def read_numbers(self) -> None:
        """/ready and /metrics. Raises ConsoleError."""
        self.picture.readiness = self._read(Readiness, await self._client.document(READY_PATH))
        answer = await self._client.ask("GET", METRICS_PATH)
        self.picture.has_metrics = answer.status == 200
        if answer.status == 200:
            self.picture.add_reading(read_metrics(answer.body.decode("utf-8", "replace"), time.monotonic()))

    async def follow(self, draw: Callable[[list[str]], None] | None = None) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(FLEET_PATH, self._take_fleet), name="fleet stream")
            tasks.create_task(self._follow(BUFFERED_PATH, self._take_waiting), name="buffered requests stream")
            tasks.create_task(self._keep_reading_numbers(), name="numbers")
            tasks.create_task(self._keep_drawing(draw or _draw), name="picture")

    def lines(self, size: tuple[int, int], *, since_start: bool = False) -> list[str]:
        """The picture now."""
        return frame(self.picture, time.monotonic(), size, time.strftime("%H:%M:%S"), since_start=since_start)

    async def _follow(self, path: str, take: Callable[[Any], None]) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                async for document in self._client.events(f"{path}/stream"):
                    take(document)
                    self._is_well(path)
                    pause = FIRST_PAUSE_SECONDS
                self._is_unwell(path, f"{self._client.address} ended the stream; it may be shutting down")
            except ConsoleError as error:
                self._is_unwell(path, str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _keep_reading_numbers(self) -> None:
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self.read_numbers()
            except ConsoleError as error:
                self._is_unwell(NUMBERS, str(error))
            else:
                self._is_well(NUMBERS)

    async def _keep_drawing(self, draw: Callable[[list[str]], None]) -> None:
        """At a change, and once an interval for the clock; never more often than people can read."""
        while True:
            draw(self.lines(shutil.get_terminal_size((80, 24))))
            self._changed.clear()
            await asyncio.sleep(min(self._interval_seconds, 0.2))
            try:
                async with asyncio.timeout(self._interval_seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _take_fleet(self, document: Any) -> None:
        self.picture.fleet = self._read(Fleet, document)
        self.picture.fleet_at = time.monotonic()

    def _take_waiting(self, document: Any) -> None:
        try:
            self.picture.requests_waiting = int(document["buffered_requests_current"])
        except (KeyError, TypeError, ValueError):
            raise strange_fleet(self._client.address) from None

    def _read(self, model: type[Record], document: Any) -> Record:
        try:
            return model.model_validate(document)
        except ValidationError:
            raise strange_fleet(self._client.address) from None

    def _is_well(self, source: str) -> None:
        self.picture.trouble.pop(source, None)
        if not self.picture.trouble:
            self.picture.away_since = None
        self._changed.set()

    def _is_unwell(self, source: str, sentence: str) -> None:
        self.picture.trouble[source] = sentence
        if self.picture.away_since is None:
            self.picture.away_since = time.monotonic()
        self._changed.set()


def _draw(lines: list[str]) -> None:
    sys.stdout.write(_HOME + _END_OF_LINE.join(lines) + "\x1b[K" + _CLEAR_BELOW)
    sys.stdout.flush()


@contextmanager
def _other_screen() -> Iterator[None]:
    sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
