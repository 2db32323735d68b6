"""The agent's process: constructs every part, and ends them in a written order."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import aiohttp

from agent.core.events import StepReport
from agent.core.swap import Swap
from agent.dialler import BalancerAccess, Dialler, Identity
from agent.links import Links
from agent.llama_loaded_model import EngineOutlet
from agent.message_router import MessageRouter
from agent.model_port import LoadedModel, ModelRuntime
from agent.reconciler import Reconciler
from agent.request_desk import Readers, RequestDesk
from agent.settings import AgentSettings
from agent.status_board import StatusBoard
from shared.identifiers import new_identifier
from shared.settings_sources import Address, parse_address

logger = logging.getLogger(__name__)

MAX_BALANCERS = 64
PROMPT_READERS = 2  # threads that tokenise: short prompts take microseconds, the longest seconds

MOST_CONSTRAINT_READERS = 256  # they copy what is compiled, or wait a second at most for the compiler's own threads

MakeRuntime = Callable[[EngineOutlet], ModelRuntime]


class Agent:
    """One agent. `run` once: it serves until told to stop, then drains, hands back and frees everything."""

    def __init__(self, settings: AgentSettings, access: BalancerAccess, make_runtime: MakeRuntime) -> None:
        self._settings = settings
        self._identity = Identity(new_identifier(), settings.name, access)
        self._make_runtime = make_runtime

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. Raises an exception group when a part dies, which is a bug."""
        with (
            _threads(PROMPT_READERS, "prompt reader") as prompts,
            _threads(min(self._settings.slots, MOST_CONSTRAINT_READERS), "constraint reader") as constraints,
            _threads(1, "model swap") as swapper,
        ):
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
                await self._serve(stop, session, Readers(prompts, constraints), swapper)

    async def _serve(
        self,
        stop: asyncio.Event,
        session: aiohttp.ClientSession,
        readers: Readers,
        swapper: ThreadPoolExecutor,
    ) -> None:
        slots = self._settings.slots
        links = Links()
        board = StatusBoard(slots, links, time.monotonic)
        thread_reports = _ThreadReports(asyncio.get_running_loop())
        runtime = self._make_runtime(EngineOutlet(thread_reports.publish, thread_reports.crashed))
        reconciler = Reconciler(Swap(slots), runtime, swapper, time.monotonic, on_change=board.changed)
        try:
            async with asyncio.TaskGroup() as tasks:
                desk = RequestDesk(slots, links, readers, tasks, on_slots_in_use=reconciler.slots_in_use)
                reconciler.serve_through(desk)
                board.watch(desk, reconciler)
                thread_reports.deliver_to(desk, board, reconciler)
                diallers = _Diallers(self._identity, session, links, tasks)
                diallers.events = MessageRouter(
                    self._identity, links, desk, reconciler, board, on_addresses=diallers.learn
                )
                side_tasks = (
                    tasks.create_task(reconciler.run(), name="reconciler"),
                    tasks.create_task(board.run(), name="status board"),
                )
                for address in self._settings.addresses:
                    diallers.dial(address)
                await stop.wait()
                await self._leave(desk, board, reconciler, diallers)
                for task in side_tasks:
                    task.cancel()
        finally:
            await reconciler.close()

    async def _leave(
        self, desk: RequestDesk, board: StatusBoard, reconciler: Reconciler, diallers: "_Diallers"
    ) -> None:
        """The order of dying: take nothing new, say so, let what runs finish, hand the rest back."""
        timeout_seconds = self._settings.drain_timeout_seconds
        logger.info("leaving; %d requests run, for at most %.0f s", desk.slots_in_use, timeout_seconds)
        reconciler.leave()
        board.draining()
        board.send_now()
        try:
            async with asyncio.timeout(timeout_seconds):
                await desk.wait_idle()
        except TimeoutError:
            logger.warning("%d requests are handed back unfinished", desk.slots_in_use)
        await diallers.close()


class _Diallers:
    """One dialler for each balancer that is configured, or that another balancer told of."""

    def __init__(
        self, identity: Identity, session: aiohttp.ClientSession, links: Links, tasks: asyncio.TaskGroup
    ) -> None:
        self.events: MessageRouter | None = None
        self._identity = identity
        self._session = session
        self._links = links
        self._tasks = tasks
        self._diallers: dict[Address, Dialler] = {}

    def dial(self, address: Address) -> None:
        """Keep a link to this balancer from now on. One that is dialled already is not dialled twice."""
        if address in self._diallers or len(self._diallers) >= MAX_BALANCERS:
            return
        assert self.events is not None
        dialler = Dialler(address, self._identity, self._session, self._links, self.events)
        self._diallers[address] = dialler
        self._tasks.create_task(dialler.run(), name=f"balancer {address}")

    def learn(self, addresses: list[str]) -> None:
        """A balancer told of others."""
        for text in addresses:
            try:
                self.dial(parse_address(text))
            except ValueError as error:
                logger.warning("a balancer told of another at %r, which %s", text[:100], error)

    async def close(self) -> None:
        """Close all links with 1001."""
        async with asyncio.TaskGroup() as closing:
            for address, dialler in self._diallers.items():
                closing.create_task(dialler.close(), name=f"close the link to {address}")


class _ThreadReports:
    """Carries what engine threads report to the event loop, one call per step."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._receivers: tuple[RequestDesk, StatusBoard, Reconciler] | None = None

    def deliver_to(self, desk: RequestDesk, board: StatusBoard, reconciler: Reconciler) -> None:
        """Who hears of it. Once, before the first model is loaded."""
        self._receivers = (desk, board, reconciler)

    def publish(self, report: StepReport) -> None:
        """From an engine's thread."""
        self._call(self._deliver_step, report)

    def crashed(self, model: LoadedModel, sentence: str) -> None:
        """From an engine's thread, after the ends of its requests were published."""
        self._call(self._deliver_crash, model, sentence)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        # The loop is closed when the process ends with a hung engine: then nobody is left to be told.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _deliver_step(self, report: StepReport) -> None:
        if self._receivers is not None:
            desk, board, _ = self._receivers
            board.step(report)
            desk.step(report)

    def _deliver_crash(self, model: LoadedModel, sentence: str) -> None:
        if self._receivers is not None:
            self._receivers[2].engine_crashed(model, sentence)


@contextlib.contextmanager
def _threads(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
