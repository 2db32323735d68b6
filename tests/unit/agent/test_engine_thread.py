"""The thread around the step: it sleeps when idle, and every request ends exactly once, come what may."""

import threading
from collections.abc import Callable, Iterator

import pytest

from agent.core.backend import BatchPlan
from agent.core.commands import Cancel, EngineCommand, Submit
from agent.core.events import MemberEnded, StepReport
from agent.core.scheduler import SchedulerSettings
from agent.engine.thread import EngineCallbacks, EngineThread
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason, SamplingParameters
from tests.support.scripted_backend import (
    ScriptedBackend,
    ScriptedVocabulary,
    prompt_with_answer,
    scripted_backend,
)

DEADLINE_SECONDS = 20.0


class Harness:
    """An engine, and the ends it published; waits on conditions, never on time."""

    def __init__(self) -> None:
        self.backend: ScriptedBackend = scripted_backend(cells=200)
        self.ends: list[MemberEnded] = []
        self.errors: list[BaseException] = []
        self.published = 0
        self._changed = threading.Condition()
        self._clock = 0.0
        callbacks = EngineCallbacks(self._publish, self._crashed)
        self.engine = EngineThread(
            self.backend, ScriptedVocabulary(), SchedulerSettings(2, 8, 8), callbacks, self._tick
        )

    def _tick(self) -> float:
        self._clock += 1.0
        return self._clock

    def _publish(self, report: StepReport) -> None:
        with self._changed:
            self.published += 1
            self.ends += [event for event in report.events if isinstance(event, MemberEnded)]
            self._changed.notify_all()

    def _crashed(self, error: BaseException) -> None:
        with self._changed:
            self.errors.append(error)
            self._changed.notify_all()

    def wait_until(self, condition: Callable[[], object]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, DEADLINE_SECONDS), "the engine did not get there"

    def end_of(self, key: str) -> MemberEnded:
        self.wait_until(lambda: any(end.key == key for end in self.ends))
        (end,) = [end for end in self.ends if end.key == key]
        return end

    def submit(self, key: str, max_tokens: int = 5) -> None:
        prompt = tuple(prompt_with_answer(4, min(max_tokens, 150)))
        self.engine.submit(Submit(key, prompt, max_tokens, SamplingParameters(), 1, 1))


@pytest.fixture
def harness() -> Iterator[Harness]:
    harness = Harness()
    harness.engine.start()
    yield harness
    harness.engine.stop()
    assert harness.engine.join(DEADLINE_SECONDS)


class Gate:
    """Holds the engine inside a decode until it is opened."""

    def __init__(self, backend: ScriptedBackend) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()
        backend.on_decode = self._wait

    def _wait(self, plan: BatchPlan) -> None:
        self.reached.set()
        assert self._open.wait(DEADLINE_SECONDS)

    def open(self) -> None:
        self._open.set()


def test_requests_run_to_their_end(harness: Harness) -> None:
    harness.submit("a")
    assert harness.end_of("a").finish_reason is FinishReason.LENGTH


def test_an_idle_engine_sleeps_and_wakes_up_for_a_command(harness: Harness) -> None:
    harness.submit("a")
    harness.end_of("a")
    steps = harness.published
    harness.submit("b")
    harness.end_of("b")
    assert harness.published == steps + 5  # the steps of b, and none in between


def test_it_is_idle_exactly_when_nothing_is_open(harness: Harness) -> None:
    gate = Gate(harness.backend)
    assert harness.engine.is_idle
    harness.submit("a")
    assert gate.reached.wait(DEADLINE_SECONDS)
    assert repr(harness.engine) == "<EngineThread busy>"
    gate.open()
    harness.end_of("a")


def test_the_last_advance_stands_still_while_a_decode_hangs(harness: Harness) -> None:
    gate = Gate(harness.backend)
    harness.submit("a")
    assert gate.reached.wait(DEADLINE_SECONDS)
    before = harness.engine.last_advance
    harness.engine.submit(Cancel("nobody"))
    assert harness.engine.last_advance == before
    gate.open()
    harness.end_of("a")
    harness.submit("b")
    harness.end_of("b")
    assert harness.engine.last_advance > before


def test_a_cancel_from_another_thread_ends_a_running_request(harness: Harness) -> None:
    gate = Gate(harness.backend)
    harness.submit("a", max_tokens=150)
    assert gate.reached.wait(DEADLINE_SECONDS)
    harness.engine.submit(Cancel("a"))
    gate.open()
    end = harness.end_of("a")
    assert end.finish_reason is FinishReason.CANCELLED
    assert end.usage.content_tokens == 1  # the step that was running when the order came


def test_stop_ends_what_runs_and_what_waits_with_its_failure(harness: Harness) -> None:
    gate = Gate(harness.backend)
    harness.submit("runs", max_tokens=150)
    assert gate.reached.wait(DEADLINE_SECONDS)
    harness.submit("still in the inbox")
    failure = Failure(FailureKind.SHUTTING_DOWN, "The agent goes away.")
    harness.engine.stop(failure)
    gate.open()
    assert [harness.end_of(key).failure for key in ("runs", "still in the inbox")] == [failure, failure]
    assert harness.backend.abort_requests >= 1
    assert harness.engine.join(DEADLINE_SECONDS)
    assert harness.errors == []


def test_a_request_after_the_end_is_answered_at_once(harness: Harness) -> None:
    harness.engine.stop()
    assert harness.engine.join(DEADLINE_SECONDS)
    harness.submit("late")
    failure = harness.end_of("late").failure
    assert failure is not None
    assert failure.kind is FailureKind.SHUTTING_DOWN


def break_decode(backend: ScriptedBackend) -> None:
    def explode(plan: BatchPlan) -> None:
        raise ValueError("a bug in the backend")

    backend.on_decode = explode


def break_sampler(backend: ScriptedBackend) -> None:
    def explode(*_: object) -> object:
        raise TypeError("a bug in the sampler")

    backend.new_sampler_for = explode  # type: ignore[assignment]


@pytest.mark.parametrize("plant", [break_decode, break_sampler])
def test_a_crash_ends_every_request_and_is_reported(harness: Harness, plant: Callable[[ScriptedBackend], None]) -> None:
    plant(harness.backend)
    gate_keys = ["a", "b", "c"]
    for key in gate_keys:
        harness.submit(key)
    for key in gate_keys:
        failure = harness.end_of(key).failure
        assert failure is not None
        assert failure.kind is FailureKind.ENGINE_FAILED
    harness.wait_until(lambda: harness.errors)
    assert harness.engine.join(DEADLINE_SECONDS)
    assert "a bug" in str(harness.errors[0])
    harness.submit("late")
    assert harness.end_of("late").failure is not None


def test_a_listener_that_fails_is_reported_too() -> None:
    errors: list[BaseException] = []

    def publish(report: StepReport) -> None:
        raise RuntimeError("the loop is closed")

    backend = scripted_backend()
    engine = EngineThread(
        backend,
        ScriptedVocabulary(),
        SchedulerSettings(1, 8, 8),
        EngineCallbacks(publish, errors.append),
        clock=lambda: 0.0,
    )
    engine.start()
    command: EngineCommand = Submit("a", (1, 2), 3, SamplingParameters(), 1, 1)
    engine.submit(command)
    assert engine.join(DEADLINE_SECONDS)
    assert [str(error) for error in errors] == ["the loop is closed"]


def test_stopping_twice_is_stopping_once(harness: Harness) -> None:
    harness.engine.stop()
    harness.engine.stop()
    assert harness.engine.join(DEADLINE_SECONDS)
    assert repr(harness.engine) == "<EngineThread ended>"
