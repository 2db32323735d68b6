"""Members with stop rules and log-probabilities beside others, in cells that are too few; and faults that would show.

What each of them must answer comes from `expected_answers`, which knows no batches, cells or forced runs.
"""

from collections.abc import Callable

import pytest

from agent.core import scheduler
from agent.core.backend import DecodeOutcome, LogprobsWanted
from agent.core.commands import Submit
from agent.core.residency import Residency
from agent.core.sequence import MemberSequence
from agent.core.stop_search import StopSearch
from agent.core.stopping import Stopping
from shared.generation import FinishReason
from tests.support.engine_driver import SAMPLING, EngineDriver, RulesOfRequest
from tests.support.scripted_backend import (
    GreedySampler,
    ScriptedFailure,
    prompt_with_answer,
    scripted_backend,
    token_of,
)
from tests.support.scripted_constraint import ConstraintScript

PROMPT = prompt_with_answer(40, 14)


def text_of_answer() -> str:
    driver = EngineDriver(scripted_backend(cells=100))
    driver.submit("a", PROMPT, 14)
    driver.run()
    return driver.text("a")


def busy_run() -> EngineDriver:
    """Logprobs of a prompt beside a shared one, failures in the midst, members set aside, forced runs that end."""
    answer = text_of_answer()
    driver = EngineDriver(scripted_backend(cells=84, batch=64, ids=3), slots=3, chunk=16)
    driver.submit("warm", PROMPT, 1)
    driver.run()
    every = LogprobsWanted(top_count=2, token_ids=(3,), prompt_start=0)
    driver.submit("all", PROMPT, 14, rules=RulesOfRequest.of(logprobs=every))
    late = LogprobsWanted(prompt_start=20)
    driver.submit("late", [*PROMPT[:30], 7, 8, 9], 20, rules=RulesOfRequest.of(answer[4:6], logprobs=late))
    stops = RulesOfRequest.of(answer[5:8], answer[2] + "~")
    driver.submit("stops", PROMPT, 14, rules=stops)
    driver.step()
    driver.backend.failures.append(ScriptedFailure(DecodeOutcome.ABORTED, 9))
    for _ in range(4):
        driver.step()
    driver.backend.failures.append(ScriptedFailure(DecodeOutcome.FATAL, 3))
    forced = ConstraintScript(3, length=20, forced_share=9)
    last = forced_text(forced)[7]  # the run goes on behind it
    driver.submit("forced", PROMPT[:20], 30, script=forced, rules=RulesOfRequest.of(last, min_tokens=6))
    early = RulesOfRequest.of(answer[1], token_ids=frozenset({40}), min_tokens=9)
    driver.submit("early", PROMPT, 14, rules=early)
    driver.run()
    for key in driver.submitted:
        driver.assert_exact(key)
    return driver


def forced_text(script: ConstraintScript) -> str:
    driver = EngineDriver(scripted_backend(cells=100))
    driver.submit("a", PROMPT[:20], 30, script=script)
    driver.run()
    return driver.text("a")


def test_the_busy_run_is_exact() -> None:
    driver = busy_run()
    assert driver.scheduler.statistics().set_aside_total
    assert driver.end("stops").matched_stop
    assert driver.end("forced").matched_stop
    assert driver.end("all").usage.cached_prompt_tokens == 0
    assert driver.end("late").usage.cached_prompt_tokens == 19


def test_a_step_has_at_most_32_rows_with_logits() -> None:
    driver = EngineDriver(scripted_backend(cells=400, batch=128, ids=4), slots=4, chunk=128)
    for salt in range(3):
        wanted = LogprobsWanted(prompt_start=0)
        driver.submit(salt, prompt_with_answer(90, 3, salt=salt), 3, rules=RulesOfRequest.of(logprobs=wanted))
    driver.run()
    rows = [sum(run.wants_logits for run in plan.runs) for plan in driver.backend.plans]
    assert max(rows) == 32
    for key in driver.submitted:
        driver.assert_exact(key)


def test_a_member_that_leaves_sends_no_text_that_was_held() -> None:
    answer = text_of_answer()
    driver = EngineDriver(scripted_backend(cells=100))
    driver.submit("a", PROMPT, 14, rules=RulesOfRequest.of(answer[:2] + "never"))
    while len(driver.answer("a")) < 2:
        driver.step()
    driver.cancel("a")
    driver.step()
    assert driver.end("a").finish_reason is FinishReason.CANCELLED
    assert driver.text("a") == ""


@pytest.mark.parametrize("answer_only", [False, True])
def test_the_prompt_counts_for_the_penalties_unless_the_request_says_otherwise(answer_only: bool) -> None:
    samplers = [GreedySampler()]
    driver = EngineDriver(scripted_backend(cells=100))
    driver.scheduler._new_sampler = lambda parameters, seed: samplers[0]
    driver.scheduler.handle(Submit("a", tuple(PROMPT), 1, SAMPLING, 1, 1, penalises_answer_only=answer_only))
    driver.run()
    assert samplers[0].observed == [*([] if answer_only else PROMPT), *driver.answer("a")]


def _a_row_is_read_for_the_token_before(monkeypatch: pytest.MonkeyPatch) -> None:
    real = scheduler.Scheduler._tell_prompt_logprobs
    monkeypatch.setattr(
        scheduler.Scheduler,
        "_tell_prompt_logprobs",
        lambda self, sequence, run, rows: real(self, sequence, run, [*rows[1:], *rows[:1]]),
    )


def _the_cache_gives_what_is_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemberSequence, "reusable_tokens", property(lambda self: len(self.tokens) - 1))


def _lost_rows_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluated_in_part(self: Residency, sequence: MemberSequence, run: object) -> None:
        sequence.evaluated = self._cache.read_back(run.sequence_id, run.tokens)  # type: ignore[attr-defined]
        if sequence.evaluated == len(sequence.tokens):
            sequence.evaluated = self._cache.cut(run.sequence_id, len(sequence.tokens) - 1)  # type: ignore[attr-defined]

    monkeypatch.setattr(Residency, "evaluated_in_part", evaluated_in_part)


def _min_tokens_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    real = StopSearch.push
    monkeypatch.setattr(StopSearch, "push", lambda self, text, *, may_end: real(self, text, may_end=True))


def _ends_may_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stopping, "forbid_ends", lambda self, sequence, row: row.__dict__.update(allowed={token_of(1)}))


@pytest.mark.parametrize(
    "plant",
    [
        _a_row_is_read_for_the_token_before,
        _the_cache_gives_what_is_owed,
        _lost_rows_are_not_read_again,
        _min_tokens_is_forgotten,
        _ends_may_be_drawn,
    ],
)
def test_a_planted_fault_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(EngineDriver, "check_invariants", lambda self: None)
    monkeypatch.setattr(scheduler.Scheduler, "check_invariants", lambda self: None)
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        busy_run()


def test_a_stop_token_at_a_forced_beginning_ends_the_answer_also_where_the_model_ends_it_next() -> None:
    script = ConstraintScript(salt=27, length=5, forced_share=5, may_end_early=True)
    assert [script.allowed(answer) for answer in ([], [41], [41, 50])] == [{41}, {50}, {8}]
    driver = EngineDriver(scripted_backend())
    driver.submit("a", [1, 6], 5, script=script, rules=RulesOfRequest.of(token_ids=frozenset({8})))
    driver.run()
    assert (driver.answer("a"), driver.end("a").matched_stop) == ((41, 50, 8), 8)
    driver.assert_exact("a")
