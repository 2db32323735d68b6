"""The driver of the swap: orders are carried out in the worker, and the desk gets what it should."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from agent.core import swap_attempts
from agent.core.swap import Swap
from agent.core.swap_events import Problem, Proof, Proved
from agent.model_port import KeepLoading, LoadedModel, LoadGivenUpError
from agent.reconciler import Reconciler
from agent.request_desk import Service
from shared.agent_status import AgentIssue, IssueKind
from shared.desired_state import AgentDesiredState
from tests.support.agent_states import state
from tests.support.fake_model import FakeModel

A, B = state("/a.gguf"), state("/b.gguf")
PROBLEM = Problem((AgentIssue(kind=IssueKind.MODEL_CANNOT_BE_LOADED, model_path="/b.gguf"),), may_pass=True)
DEADLINE_SECONDS = 5.0


@dataclass
class FakeRuntime:
    """Loads fake models; a test may hold a load, or make either call fail."""

    models: list[FakeModel] = field(default_factory=list)
    proofs: list[AgentDesiredState] = field(default_factory=list)
    dropped: list[Proof] = field(default_factory=list)
    may_prove: threading.Event = field(default_factory=threading.Event)
    is_proving: threading.Event = field(default_factory=threading.Event)
    may_load: threading.Event = field(default_factory=threading.Event)
    is_loading: threading.Event = field(default_factory=threading.Event)
    refuse: AgentDesiredState | None = None
    error: Exception | None = None
    errors_raised: int = 0
    most_alive: int = 0

    def __post_init__(self) -> None:
        self.may_prove.set()
        self.may_load.set()

    def prove(self, state: AgentDesiredState, keep_loading: KeepLoading, *, reload: bool) -> Proved | Problem:
        if self.error is not None:
            self.errors_raised += 1
            raise self.error
        self.proofs.append(state)
        self.is_proving.set()
        while not self.may_prove.wait(0.005):
            if not keep_loading():
                raise LoadGivenUpError
        return Proved(f"proof of {state.model}")

    def load(self, state: AgentDesiredState, proof: Proof, keep_loading: KeepLoading) -> LoadedModel | Problem:
        self.is_loading.set()
        while not self.may_load.wait(0.005):
            if not keep_loading():
                raise LoadGivenUpError
        if state == self.refuse:
            return PROBLEM
        model = FakeModel()
        self.models.append(model)
        self.most_alive = max(self.most_alive, sum(not one.is_closed for one in self.models))
        return model

    def drop_proof(self, proof: Proof) -> None:
        self.dropped.append(proof)


class FakeDesk:
    """What a desk is told."""

    def __init__(self) -> None:
        self.service: Service | None = None
        self.is_open = False

    def use(self, service: Service | None) -> None:
        self.service = service

    def set_open(self, is_open: bool) -> None:
        self.is_open = is_open


@dataclass
class Bench:
    """A reconciler that runs, with a scripted runtime and desk."""

    runtime: FakeRuntime
    desk: FakeDesk
    reconciler: Reconciler
    changed: asyncio.Event

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def want(self, revision: int, wanted: AgentDesiredState, link: int = 1, *, giver_is_up: bool = True) -> None:
        self.reconciler.state_wanted(link, revision, wanted, giver_is_up=giver_is_up)

    async def serve(self, revision: int, wanted: AgentDesiredState) -> FakeModel:
        self.want(revision, wanted)
        await self.until(lambda: self.desk.is_open and self.reconciler.swap.applied_revision == revision)
        return self.runtime.models[-1]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    changed = asyncio.Event()
    runtime, desk = FakeRuntime(), FakeDesk()
    clock = asyncio.get_running_loop().time
    with ThreadPoolExecutor(1) as worker:
        reconciler = Reconciler(Swap(4), runtime, worker, clock, changed.set)
        reconciler.serve_through(desk)
        running = asyncio.create_task(reconciler.run())
        yield Bench(runtime, desk, reconciler, changed)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await reconciler.close()
    assert all(model.is_closed for model in runtime.models), "a model leaked"
    assert runtime.most_alive <= 1, "two models were in memory together"


async def test_a_wanted_state_is_loaded_and_the_desk_opens(bench: Bench) -> None:
    model = await bench.serve(1, A)
    assert bench.desk.service == Service(model, A.inference_parameters.sampling())


async def test_an_exchange_closes_the_old_model_first(bench: Bench) -> None:
    old = await bench.serve(1, A)
    new = await bench.serve(2, B)
    assert old.is_closed
    assert not new.is_closed
    assert bench.reconciler.model is new


async def test_the_desk_is_closed_while_a_model_loads_and_the_loop_is_free(bench: Bench) -> None:
    """C24."""
    await bench.serve(1, A)
    bench.runtime.may_load.clear()
    bench.runtime.is_loading.clear()
    bench.want(2, B)
    await bench.until(lambda: bench.reconciler.swap.phase == "loading")
    assert not bench.desk.is_open
    assert bench.desk.service is None
    bench.runtime.may_load.set()
    await bench.until(lambda: bench.desk.is_open)


async def test_a_change_of_sampling_reaches_the_desk_without_a_load(bench: Bench) -> None:
    model = await bench.serve(1, A)
    greedy = state("/a.gguf", temperature=0.0)
    bench.want(2, greedy)
    assert bench.desk.service == Service(model, greedy.inference_parameters.sampling())
    assert len(bench.runtime.models) == 1


async def test_no_model_closes_the_desk_and_frees_the_old_one(bench: Bench) -> None:
    model = await bench.serve(1, A)
    bench.want(2, state("None"))
    await bench.until(lambda: bench.reconciler.swap.applied_revision == 2)
    assert model.is_closed
    assert not bench.desk.is_open
    assert bench.desk.service is None


async def test_a_load_that_nobody_wants_any_more_is_given_up(bench: Bench) -> None:
    bench.runtime.may_load.clear()
    bench.want(1, A)
    await bench.until(lambda: bench.reconciler.swap.phase == "loading")
    await asyncio.to_thread(bench.runtime.is_loading.wait)
    bench.want(2, B)
    await bench.until(lambda: len(bench.runtime.proofs) == 2)
    bench.runtime.may_load.set()
    await bench.until(lambda: bench.reconciler.swap.applied_revision == 2)
    assert len(bench.runtime.models) == 1


async def test_a_proof_that_nobody_waits_for_any_more_is_given_up(bench: Bench) -> None:
    bench.runtime.may_prove.clear()
    bench.want(1, A)
    await asyncio.to_thread(bench.runtime.is_proving.wait, DEADLINE_SECONDS)
    bench.runtime.is_proving.clear()
    bench.want(2, B)
    assert await asyncio.to_thread(bench.runtime.is_proving.wait, DEADLINE_SECONDS)
    assert bench.runtime.proofs == [A, B]
    bench.runtime.may_prove.set()
    await bench.until(lambda: bench.reconciler.swap.applied_revision == 2)
    assert not bench.reconciler.swap.issues.current()


async def test_leaving_gives_a_proof_up_and_starts_nothing_more(bench: Bench) -> None:
    old = await bench.serve(1, A)
    bench.runtime.may_prove.clear()
    bench.runtime.is_proving.clear()
    bench.want(2, B)
    await asyncio.to_thread(bench.runtime.is_proving.wait, DEADLINE_SECONDS)
    bench.reconciler.leave()
    await bench.reconciler.close()
    assert bench.runtime.proofs == [A, B]
    assert old.is_closed


async def test_leaving_while_a_proved_model_waits_for_slots_frees_its_proof(bench: Bench) -> None:
    await bench.serve(1, A)
    bench.reconciler.slots_in_use(1)
    bench.want(2, B)
    await bench.until(lambda: bench.reconciler.swap.phase == "draining")
    bench.reconciler.leave()
    bench.reconciler.slots_in_use(0)
    await bench.reconciler.close()
    assert len(bench.runtime.dropped) == 1
    assert len(bench.runtime.models) == 1


async def test_a_runtime_that_raises_is_an_issue_not_a_dead_agent(bench: Bench) -> None:
    bench.runtime.error = RuntimeError("a bug in the runtime")
    bench.want(1, A)
    await bench.until(lambda: bool(bench.reconciler.swap.issues.current()))
    (issue,) = bench.reconciler.swap.issues.current()
    assert issue.model_path == "/a.gguf"
    assert "RuntimeError" in issue.detail
    bench.runtime.error = None
    await bench.serve(2, A)


async def test_a_failed_load_brings_the_old_model_back_through_the_desk(bench: Bench) -> None:
    await bench.serve(1, A)
    bench.runtime.refuse = B
    bench.want(2, B)
    await bench.until(lambda: len(bench.runtime.models) == 2 and bench.desk.is_open)
    assert bench.reconciler.swap.applied_revision == 1
    assert bench.desk.service is not None


async def test_the_log_has_each_issue_once_and_each_revision_that_comes_into_force(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(swap_attempts, "FIRST_RETRY_SECONDS", 0.01)
    bench.runtime.error = RuntimeError("a bug in the runtime")
    with caplog.at_level(logging.INFO, logger="agent.reconciler"):
        bench.want(1, A)
        await bench.until(lambda: bench.runtime.errors_raised >= 3)
        bench.runtime.error = None
        await bench.until(lambda: bench.desk.is_open)
        bench.want(2, state("None"))
        await bench.until(lambda: bench.reconciler.swap.applied_revision == 2)
    said = [record.getMessage() for record in caplog.records if record.name == "agent.reconciler"]
    assert said[0].startswith("ModelCannotBeLoaded: ")
    assert said[1:] == [f"revision 1 is in force: {FakeModel().model_path}", "revision 2 is in force: no model"]


async def test_a_balancer_that_lags_behind_is_not_followed_while_the_other_is_there(bench: Bench) -> None:
    await bench.serve(5, A)
    bench.want(4, B, link=2, giver_is_up=True)
    assert bench.reconciler.swap.phase is None
    bench.want(4, B, link=2, giver_is_up=False)  # a balancer that began anew
    await bench.until(lambda: bench.reconciler.swap.applied_revision == 4)


async def test_the_same_balancer_may_go_back(bench: Bench) -> None:
    await bench.serve(5, A)
    bench.want(0, state("None"))
    await bench.until(lambda: bench.reconciler.swap.applied_revision == 0)


async def test_a_crashed_engine_closes_the_desk_and_the_model(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swap_attempts, "FIRST_RETRY_SECONDS", 0.01)
    model = await bench.serve(1, A)
    bench.reconciler.engine_crashed(model, "the engine failed: ValueError")
    assert not bench.desk.is_open
    assert bench.reconciler.model is None
    (issue,) = bench.reconciler.swap.issues.current()
    assert issue.detail == "the engine failed: ValueError"
    await bench.until(lambda: bench.desk.is_open)  # after the first back-off
    assert model.is_closed


async def test_the_crash_of_a_model_that_is_gone_changes_nothing(bench: Bench) -> None:
    old = await bench.serve(1, A)
    await bench.serve(2, B)
    bench.reconciler.engine_crashed(old, "late news")
    assert bench.desk.is_open


async def test_leaving_closes_the_desk_for_good_and_gives_a_load_up(bench: Bench) -> None:
    await bench.serve(1, A)
    bench.runtime.may_load.clear()
    bench.runtime.is_loading.clear()
    bench.want(2, B)
    await asyncio.to_thread(bench.runtime.is_loading.wait)
    bench.reconciler.leave()
    await bench.until(lambda: bench.reconciler.swap.phase != "loading")
    assert not bench.desk.is_open
