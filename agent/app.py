"""The agent's process: constructs every part, and ends them in a written order."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import aiohttp

from agent.core.swap import Swap
from agent.counted_runtime import CountedRuntime
from agent.dialler import BalancerAccess, Identity
from agent.figure_book import FigureBook
from agent.known_balancers import KnownBalancers
from agent.links import Links
from agent.llama_loaded_model import EngineOutlet
from agent.message_router import MessageRouter
from agent.metrics_service import serving_metrics
from agent.model_port import ModelRuntime
from agent.reconciler import Reconciler
from agent.request_desk import RequestDesk
from agent.request_preparation import Readers
from agent.service_status import service_facts
from agent.settings import AgentSettings
from agent.status_board import StatusBoard
from agent.thread_reports import ThreadReports
from shared.identifiers import new_identifier
from shared.service_link import ServiceLink, Supervision, reload_when

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 60.0  # after the drain, at most: an engine that hangs is given half of it
PROMPT_READERS = 2  # threads that tokenise: short prompts take microseconds, the longest seconds
MOST_CONSTRAINT_READERS = 256  # they copy what is compiled, or wait a second at most for the compiler's own threads

MakeRuntime = Callable[[EngineOutlet], ModelRuntime]


class Agent:
    """One agent. `run` once: it serves until told to stop, then drains, hands back and frees everything."""

    def __init__(
        self,
        settings: AgentSettings,
        access: BalancerAccess,
        make_runtime: MakeRuntime,
        supervision: Supervision | None = None,
    ) -> None:
        self._settings = settings
        self._supervision = supervision or Supervision()
        self._dials = False
        self._identity = Identity(new_identifier(), settings.name, access)
        self._make_runtime = make_runtime

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. Raises CannotListen, and an exception group when a part dies, which is a bug."""
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
        reports = ThreadReports(asyncio.get_running_loop())
        outlet = EngineOutlet(reports.publish, reports.crashed, reports.load_progress)
        runtime = CountedRuntime(self._make_runtime(outlet), time.monotonic)
        book = FigureBook(self._identity.agent_id, runtime.statistics)
        board = StatusBoard(slots, links, book, time.monotonic)
        reconciler = Reconciler(Swap(slots), runtime, swapper, time.monotonic, on_change=board.changed)
        try:
            async with serving_metrics(self._settings.metrics_addr, board.snapshot), asyncio.TaskGroup() as tasks:
                desk = RequestDesk(slots, links, readers, tasks, on_slots_in_use=reconciler.slots_in_use)
                reconciler.serve_through(desk)
                board.watch(desk, reconciler)
                reports.deliver_to(board, desk, of_crashes=reconciler)
                balancers = KnownBalancers(self._identity, session, links, tasks)
                balancers.events = MessageRouter(
                    self._identity, links, desk, reconciler, board, on_addresses=balancers.learn
                )
                manager = self._service_link(board, links, reports)
                side_tasks = (
                    tasks.create_task(reconciler.run(), name="reconciler"),
                    tasks.create_task(board.run(), name="status board"),
                    tasks.create_task(manager.run(), name="service manager"),
                    tasks.create_task(self._reload(manager), name="reload"),
                )
                for address in self._settings.addresses:
                    balancers.dial(address)
                self._dials = True
                await stop.wait()
                manager.stopping(self._settings.drain_timeout_seconds + CLOSING_SECONDS)
                await self._leave(desk, board, reconciler, balancers)
                for task in side_tasks:
                    task.cancel()
        finally:
            await reconciler.close()

    def _service_link(self, board: StatusBoard, links: Links, reports: ThreadReports) -> ServiceLink:
        return ServiceLink(
            self._supervision.manager,
            lambda: service_facts(board.snapshot(), len(links), reports.load_fraction, is_ready=self._dials),
            time.monotonic,
        )

    async def _reload(self, manager: ServiceLink) -> None:
        await reload_when(self._supervision.reload_asked, manager, self._supervision.reload_steps)

    async def _leave(
        self, desk: RequestDesk, board: StatusBoard, reconciler: Reconciler, balancers: KnownBalancers
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
        await balancers.close()


@contextlib.contextmanager
def _threads(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
