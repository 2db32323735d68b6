"""Loads are timed, failures are counted, and what the runtime says is passed on."""

import pytest

from agent.core.swap_events import Proved
from agent.counted_runtime import CountedRuntime
from agent.model_port import LoadGivenUpError
from tests.support.agent_states import state
from tests.unit.agent.test_reconciler import PROBLEM, FakeRuntime

A = state("/a.gguf")


class Clock:
    """Each reading is 4 s after the one before."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 4.0
        return self.now


def go_on() -> bool:
    return True


def test_a_good_load_is_timed() -> None:
    runtime = FakeRuntime()
    counted = CountedRuntime(runtime, Clock())
    assert isinstance(counted.prove(A, go_on, reload=True), Proved)
    assert counted.load(A, "proof", go_on) is runtime.models[0]
    statistics = counted.statistics()
    assert (statistics.failed, sum(statistics.seconds.counts), statistics.seconds.total) == (0, 1, 4.0)


def test_a_refused_proof_and_a_refused_load_are_failures_and_take_no_time() -> None:
    counted = CountedRuntime(FakeRuntime(refuse=A), Clock())
    assert counted.load(A, "proof", go_on) is PROBLEM
    counted.load(A, "proof", go_on)
    assert (counted.statistics().failed, counted.statistics().seconds.total) == (2, 0.0)


def test_an_error_is_a_failure_and_passed_on() -> None:
    counted = CountedRuntime(FakeRuntime(error=OSError("x")), Clock())
    with pytest.raises(OSError, match="x"):
        counted.prove(A, go_on, reload=True)
    assert counted.statistics().failed == 1


def test_a_proof_given_up_is_no_failure() -> None:
    runtime = FakeRuntime()
    runtime.may_prove.clear()
    counted = CountedRuntime(runtime, Clock())
    with pytest.raises(LoadGivenUpError):
        counted.prove(A, lambda: False, reload=True)
    assert counted.statistics().failed == 0


def test_a_proof_is_dropped_by_whom_it_belongs_to() -> None:
    runtime = FakeRuntime()
    CountedRuntime(runtime, Clock()).drop_proof("proof")
    assert runtime.dropped == ["proof"]
