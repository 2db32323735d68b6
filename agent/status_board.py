"""Puts together what the agent says about itself, and says it: at once when something changed, and regularly.

Changes that come close together become one message.
"""

import asyncio
from collections.abc import Callable

from agent.core.events import SchedulerStatistics, StepReport
from agent.figure_book import FigureBook
from agent.links import Links
from agent.reconciler import Reconciler
from agent.request_desk import RequestDesk
from agent.swap_jobs import model_path_of
from shared.agent_status import AgentStatus
from shared.messages_from_agent import StatusUpdate

SHORTEST_GAP_SECONDS = 0.1
LONGEST_GAP_SECONDS = 5.0  # until a balancer names its heartbeat interval


class StatusBoard:
    """The agent's status, always as of now."""

    def __init__(self, slots: int, links: Links, book: FigureBook, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds, the engine's too."""
        self._slots = slots
        self._links = links
        self._book = book
        self._clock = clock
        self._version = 0
        self._statistics: SchedulerStatistics | None = None
        self._has_changed = asyncio.Event()
        self._longest_gap_seconds = LONGEST_GAP_SECONDS
        self._is_draining = False
        self._desk: RequestDesk | None = None
        self._reconciler: Reconciler | None = None

    def watch(self, desk: RequestDesk, reconciler: Reconciler) -> None:
        """Whom to ask. Once, before anything else."""
        self._desk, self._reconciler = desk, reconciler

    # Facts

    def changed(self) -> None:
        """Something that the status shows is different now."""
        self._has_changed.set()

    def step(self, report: StepReport) -> None:
        """Figures of the engine; they go out with the next message, and cause none."""
        self._statistics = report.statistics
        self._book.step(report)

    def heartbeat_interval(self, seconds: float) -> None:
        """A balancer expects a status at least this often."""
        self._longest_gap_seconds = min(self._longest_gap_seconds, seconds)

    def draining(self) -> None:
        """The process is about to end."""
        self._is_draining = True
        self.changed()

    # The message

    async def run(self) -> None:
        """Send for ever. Cancelled: the next status is simply not sent."""
        while True:
            try:
                async with asyncio.timeout(self._longest_gap_seconds):
                    await self._has_changed.wait()
            except TimeoutError:
                pass
            self.send_now()
            await asyncio.sleep(SHORTEST_GAP_SECONDS)

    def send_now(self) -> None:
        """Tell all balancers."""
        self._has_changed.clear()
        if len(self._links):
            self._links.send_status(StatusUpdate(status=self.snapshot()))

    def snapshot(self) -> AgentStatus:
        """The status as of now, under a new version."""
        assert self._desk is not None
        assert self._reconciler is not None
        swap, model = self._reconciler.swap, self._reconciler.model
        accepting = swap.accepting and not self._is_draining
        serving = swap.serving.state if swap.serving else None
        statistics = self._statistics if model is not None else None
        self._version += 1
        return AgentStatus(
            status_version=self._version,
            desired_slots_total=self._slots,
            slots_total=self._slots if accepting else 0,
            slots_processing=self._desk.slots_in_use,
            accepting=accepting,
            draining=self._is_draining,
            state_application_status=swap.application_status,
            applied_revision=swap.applied_revision,
            swap_phase=swap.phase,
            issues=list(swap.issues.current()),
            model_path=model_path_of(serving) if serving else None,
            uses_chat_template_override=serving is not None and serving.chat_template_override is not None,
            request_limit_tokens=model.limits.request_limit_tokens if model else 0,
            vocabulary_size=model.limits.vocabulary_size if model else 0,
            context_cells=model.limits.context_cells if model else 0,
            used_cells=statistics.used_cells if statistics else 0,
            cached_tokens=statistics.cached_tokens if statistics else 0,
            last_step_age_seconds=self._last_step_age_seconds(),
            peer_version_problem=self._links.version_problem,
            figures=self._book.figures(model),
        )

    def _last_step_age_seconds(self) -> float | None:
        assert self._reconciler is not None
        model = self._reconciler.model
        if model is None or model.is_idle:
            return None
        return max(0.0, self._clock() - model.last_advance)
