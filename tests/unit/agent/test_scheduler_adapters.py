"""Members with different adapters: one adapter a step, each in its turn, and no cell of one serves another."""

from collections.abc import Callable

import pytest

from agent.core import batch_plan, scheduler, step_filling
from agent.core.adapter_turns import AdapterTurns
from agent.core.backend import DecodeOutcome
from agent.core.prefix_cache import PrefixCache
from agent.core.prefix_tree import PrefixMatch
from shared.failures import FailureKind
from shared.generation import FinishReason
from tests.support.engine_driver import EngineDriver
from tests.support.scripted_backend import ScriptedFailure, expected_answer, prompt_with_answer, scripted_backend


def long_prompt(length: int, *adapters: str | None) -> list[int]:
    """One whose answer of 12 tokens differs with each of the adapters and ends in none of them early."""
    for salt in range(50):
        prompt = prompt_with_answer(length, 12, salt=salt)
        answers = {expected_answer(prompt, 12, 10**6, adapter) for adapter in adapters}
        if len(answers) == len(adapters) and all(len(answer) == 12 for answer in answers):
            return prompt
    raise AssertionError("no such prompt")


PROMPT = long_prompt(40, None, "a", "b")


def test_the_longest_waiting_adapter_is_next_and_a_newcomer_waits_for_all() -> None:
    turns = AdapterTurns()
    served: list[str | None] = []
    steps: list[list[str | None]] = [[None, "a"], [None, "a"], [None, "a", "b"], [None, "a", "b"], ["b", None, "a"]]
    steps += [["a"], ["c", "a"], ["c", "a"]]
    for present in steps:
        served.append(turns.choose(present))
        turns.done(served[-1])
    assert served == [None, "a", None, "a", "b", "a", "a", "c"]


def test_an_adapter_whose_decode_failed_stays_the_choice() -> None:
    turns = AdapterTurns()
    assert turns.choose(["a", None]) == "a"
    assert turns.choose(["b", None, "a"]) == "a"


def test_side_by_side_each_answers_as_alone_in_fair_turns() -> None:
    driver = EngineDriver(scripted_backend(cells=400, batch=64, ids=3), slots=3, chunk=16)
    for adapter in (None, "a", "b"):
        driver.submit(adapter, PROMPT, 12, adapter=adapter)
    driver.run()
    for key in driver.submitted:
        driver.assert_exact(key)
        assert driver.end(key).usage.cached_prompt_tokens == 0
    adapters = [plan.adapter for plan in driver.backend.plans]
    assert adapters == [None, "a", "b"] * (len(adapters) // 3)


def test_a_prefix_serves_its_own_adapter_only() -> None:
    driver = EngineDriver(scripted_backend(cells=4000, batch=64, ids=3), slots=1, chunk=16)
    for key, adapter in enumerate(["a", None, "a", None, "b"]):
        driver.submit(key, PROMPT, 12, adapter=adapter)
        driver.run()
        driver.assert_exact(key)
    assert [driver.end(key).usage.cached_prompt_tokens for key in range(5)] == [0, 0, 39, 39, 0]


def busy_run() -> EngineDriver:
    """Several adapters in a pool that is too small, with shared beginnings, failures and members set aside."""
    driver = EngineDriver(scripted_backend(cells=84, batch=16, ids=4), slots=4, chunk=8)
    driver.submit("warm", PROMPT[:30], 1, adapter="a")
    driver.run()
    for index, adapter in enumerate(["a", None, "a", "b"]):
        driver.submit(index, [*PROMPT[: 25 + index], 7], 12, adapter=adapter)
    for _ in range(6):
        driver.step()
    driver.backend.failures.append(ScriptedFailure(DecodeOutcome.ABORTED, 2))
    driver.submit("late", PROMPT, 12, adapter="b")
    driver.submit("urgent", PROMPT[:20], 12, priority=5)
    driver.run()
    for key in driver.submitted:
        driver.assert_exact(key)
    return driver


def test_the_busy_run_is_exact() -> None:
    driver = busy_run()
    assert driver.scheduler.statistics().set_aside_total
    assert driver.scheduler.statistics().reused_prompt_tokens


def test_a_decode_that_fails_twice_ends_the_members_of_its_adapter_only() -> None:
    driver = EngineDriver(scripted_backend(cells=400, batch=64, ids=3), slots=3, chunk=64)
    driver.submit("first", PROMPT, 12, adapter="a")
    driver.submit("second", PROMPT, 12)
    driver.backend.failures.extend([ScriptedFailure(DecodeOutcome.FATAL)] * 2)
    driver.run()
    failure = driver.end("first").failure
    assert failure is not None
    assert failure.kind is FailureKind.ENGINE_FAILED
    assert driver.end("second").finish_reason is FinishReason.LENGTH


def _prefixes_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PrefixCache.match

    def match(self: PrefixCache, tokens: list[int], most: int | None = None, adapter: str | None = None) -> PrefixMatch:
        found = [real(self, tokens, most, one) for one in (adapter, None, "a", "b")]
        return max(found, key=lambda one: one.tokens)

    monkeypatch.setattr(PrefixCache, "match", match)


def _all_have_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    real = batch_plan.choose_rows
    monkeypatch.setattr(
        step_filling.StepFilling,
        "_fill",
        lambda self, adapter: [
            batch_plan.planned_run(one, rows)
            for one, rows in real(self._residency.attached(), batch_plan.StepBudget(16, 8)).rows
        ],
    )


@pytest.mark.parametrize("plant", [_prefixes_are_shared, _all_have_one_turn])
def test_a_planted_fault_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(EngineDriver, "check_invariants", lambda self: None)
    monkeypatch.setattr(scheduler.Scheduler, "check_invariants", lambda self: None)
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        busy_run()
