"""What the agent says about itself, and when."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from agent.core import swap_events as facts
from agent.core.events import StepReport
from agent.core.statistics import LoadStatistics
from agent.core.swap import Swap
from agent.figure_book import FigureBook
from agent.links import Links
from agent.status_board import StatusBoard
from shared.agent_status import AgentIssue, AgentStatus, IssueKind, StateApplicationStatus
from shared.messages_from_agent import MessageFromAgent, StatusUpdate
from tests.support.agent_states import state
from tests.support.fake_model import FakeModel, step_report


@dataclass
class FakeLink:
    balancer_id: str = "b"
    statuses: list[AgentStatus] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, message: MessageFromAgent) -> None:
        assert isinstance(message, StatusUpdate)
        self.statuses.append(message.status)
        self.arrived.set()

    async def next(self) -> AgentStatus:
        self.arrived.clear()
        async with asyncio.timeout(5.0):
            await self.arrived.wait()
        return self.statuses[-1]


@dataclass
class FakeDesk:
    slots_in_use: int = 0


@dataclass
class FakeReconciler:
    swap: Swap = field(default_factory=lambda: Swap(4))
    model: FakeModel | None = None


@dataclass
class Bench:
    now: float = 100.0
    links: Links = field(default_factory=Links)
    desk: FakeDesk = field(default_factory=FakeDesk)
    reconciler: FakeReconciler = field(default_factory=FakeReconciler)

    def __post_init__(self) -> None:
        self.book = FigureBook("process-1", LoadStatistics)
        self.board = StatusBoard(4, self.links, self.book, lambda: self.now)
        self.board.watch(self.desk, self.reconciler)  # type: ignore[arg-type]

    def load(self) -> None:
        swap = self.reconciler.swap
        swap.handle(facts.StateWanted(3, state("/a.gguf", template="x")), 0.0)
        swap.handle(facts.Proved("p"), 0.0)
        swap.handle(facts.Loaded(), 0.0)
        self.reconciler.model = FakeModel()


def test_an_agent_without_a_model_has_no_slots_yet() -> None:
    status = Bench().board.snapshot()
    assert (status.desired_slots_total, status.slots_total) == (4, 0)
    assert not status.accepting
    assert status.state_application_status is StateApplicationStatus.FRESH
    assert status.model_path is None
    assert status.last_step_age_seconds is None


def test_an_agent_with_a_model_shows_slots_limits_and_figures() -> None:
    bench = Bench()
    bench.load()
    bench.desk.slots_in_use = 2
    bench.board.step(step_report())
    status = bench.board.snapshot()
    assert (status.slots_total, status.slots_processing, status.accepting) == (4, 2, True)
    assert (status.applied_revision, status.model_path) == (3, "/a.gguf")
    assert status.uses_chat_template_override
    assert (status.request_limit_tokens, status.context_cells, status.used_cells) == (100, 256, 7)
    assert (status.figures.started_at_id, status.figures.steps_total) == ("process-1", 0)
    bench.reconciler.model = None
    later = StepReport((), replace(step_report().statistics, steps=5))
    bench.board.step(later)
    assert bench.board.snapshot().used_cells == 0
    assert bench.board.snapshot().figures.steps_total == 5, "figures stay when the model goes"


def test_an_engine_at_work_shows_the_age_of_its_last_step() -> None:
    bench = Bench()
    bench.load()
    assert bench.reconciler.model is not None
    bench.reconciler.model.is_idle = False
    bench.reconciler.model.last_advance = 98.5
    assert bench.board.snapshot().last_step_age_seconds == pytest.approx(1.5)


def test_an_agent_that_drains_has_no_slots_to_offer() -> None:
    bench = Bench()
    bench.load()
    bench.board.draining()
    status = bench.board.snapshot()
    assert (status.slots_total, status.accepting, status.draining) == (0, False, True)


def test_issues_and_version_problems_are_shown() -> None:
    bench = Bench()
    issue = AgentIssue(kind=IssueKind.MODEL_FILE_DOES_NOT_EXIST, model_path="/x")
    bench.reconciler.swap.issues.raise_problems([issue])
    bench.links.note_version_problem("host:1", "upgrade the peer")
    status = bench.board.snapshot()
    assert status.issues == [issue]
    assert status.peer_version_problem == "upgrade the peer"
    bench.links.note_version_problem("host:1", None)
    assert bench.board.snapshot().peer_version_problem is None


def test_every_snapshot_has_a_higher_version() -> None:
    board = Bench().board
    assert board.snapshot().status_version < board.snapshot().status_version


async def test_a_change_is_sent_to_every_link_and_changes_together_are_one_message() -> None:
    bench = Bench()
    one, other = FakeLink(), FakeLink()
    bench.links.join(one)
    bench.links.join(other)
    running = asyncio.create_task(bench.board.run())
    for _ in range(50):
        bench.board.changed()
    await one.next()
    assert len(one.statuses) == len(other.statuses) == 1
    running.cancel()


async def test_without_a_change_a_status_is_sent_every_heartbeat() -> None:
    bench = Bench()
    link = FakeLink()
    bench.links.join(link)
    bench.board.heartbeat_interval(0.05)
    running = asyncio.create_task(bench.board.run())
    first, second = await link.next(), await link.next()
    assert first.status_version < second.status_version
    running.cancel()
