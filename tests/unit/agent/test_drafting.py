"""Guesses share a step's rows, change no answer, and what was wrong of them leaves the memory."""

from collections.abc import Callable, Sequence

import pytest

from agent.core.backend import BatchPlan, DecodeOutcome, LogitsRow, LogprobsWanted, PlannedRun
from agent.core.events import TokensCommitted
from agent.core.next_tokens import NextTokens
from agent.core.residency import Residency
from agent.core.scheduler import Scheduler
from agent.core.sequence import MemberSequence
from agent.core.stopping import TokenVerdict
from shared.generation import FinishReason
from tests.support.engine_driver import EngineDriver, RulesOfRequest
from tests.support.oracle_drafts import use_oracle
from tests.support.scripted_backend import ScriptedFailure, scripted_backend
from tests.support.scripted_constraint import ConstraintScript

PROMPT = [5, 6, 7, 8]
SCRIPT = ConstraintScript(salt=3, length=40, forced_share=3)


@pytest.fixture(autouse=True)
def _oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    use_oracle(monkeypatch)


def driver_for(cells: int = 400, batch: int = 64, draft_tokens: int = 6, can_share: bool = True) -> EngineDriver:
    backend = scripted_backend(cells, batch, ids=9, can_share=can_share)
    return EngineDriver(backend, slots=8, chunk=8, draft_tokens=draft_tokens)


def drafted(plan: BatchPlan) -> int:
    """Of plans in which everybody generates."""
    return sum(run.wants_logits - 1 for run in plan.runs)


def test_an_answer_takes_fewer_steps_and_is_the_same() -> None:
    steps = []
    for draft_tokens in (0, 6):
        driver = driver_for(draft_tokens=draft_tokens)
        driver.submit("a", PROMPT, 100, script=SCRIPT)
        steps.append(driver.run())
        driver.assert_exact("a")
        events = [one for one in driver.events if isinstance(one, TokensCommitted)]
        assert [one.token_ids for one in events] == [(token,) for token in driver.answer("a")]
    statistics = driver.scheduler.statistics()
    assert steps[1] < 0.7 * steps[0]
    assert statistics.drafted_tokens > statistics.accepted_tokens > 5
    assert statistics.generated_tokens == 40
    assert statistics.evaluated_prompt_tokens == len(PROMPT)


def test_one_answer_has_all_draft_tokens_and_each_further_one_takes_two_away() -> None:
    most = []
    for members in (1, 2, 3, 4):
        driver = driver_for()
        for key in range(members):
            driver.submit(key, [*PROMPT, key], 100, script=SCRIPT)
        driver.run()
        together = [plan for plan in driver.backend.plans[members:] if len(plan.runs) == members]
        most.append(max(map(drafted, together)))
        for key in range(members):
            driver.assert_exact(key)
    assert most == [5, 4, 2, 0]  # the oracle has five at most


def test_a_free_answer_or_one_with_log_probabilities_is_not_guessed() -> None:
    driver = driver_for()
    driver.submit("free", PROMPT, 30)
    driver.submit("told", [*PROMPT, 1], 30, script=SCRIPT, rules=RulesOfRequest.of(logprobs=LogprobsWanted()))
    driver.run()
    assert driver.scheduler.statistics().drafted_tokens == 0


def test_where_the_memory_cannot_be_cut_nothing_is_guessed() -> None:
    driver = driver_for(can_share=False)
    driver.submit("a", PROMPT, 30, script=SCRIPT)
    driver.run()
    driver.assert_exact("a")
    assert driver.scheduler.statistics().drafted_tokens == 0


def test_guesses_never_take_cells_that_somebody_holds() -> None:
    driver = driver_for(cells=len(PROMPT) + 42)
    driver.submit("a", PROMPT, 100, script=SCRIPT)
    driver.submit("b", [*PROMPT, 1], 3, script=SCRIPT)
    driver.run()
    assert driver.scheduler.statistics().set_aside_total == 0
    assert DecodeOutcome.NO_KV_SLOT not in driver.backend.outcomes
    driver.assert_exact("a")


def test_nothing_is_guessed_beyond_the_last_token_an_answer_may_have() -> None:
    driver = driver_for()
    driver.submit("a", PROMPT, 7, script=SCRIPT)
    driver.run()
    assert driver.end("a").finish_reason is FinishReason.LENGTH
    last = max(run.first_position + len(run.tokens) for plan in driver.backend.plans for run in plan.runs)
    assert last < len(PROMPT) + 7


@pytest.mark.parametrize("limit", range(8, 40))
def test_nothing_is_guessed_beyond_what_prompt_and_answer_may_have(limit: int) -> None:
    backend = scripted_backend(400, 64, ids=9, request_limit=limit)
    driver = EngineDriver(backend, slots=8, chunk=8, draft_tokens=6)
    driver.submit("a", PROMPT, 100, script=SCRIPT)
    driver.run()
    driver.assert_exact("a")
    assert max(run.first_position + len(run.tokens) for plan in backend.plans for run in plan.runs) < limit


@pytest.mark.parametrize("draft_tokens", [0, 6])
def test_a_stop_in_the_forced_beginning_takes_no_guesses_back(draft_tokens: int) -> None:
    scripts = (ConstraintScript(salt=salt, length=12, forced_share=7) for salt in range(50))
    script = next(one for one in scripts if 5 <= len(one.matcher().take_forced(12)) < 12)
    driver = driver_for(draft_tokens=draft_tokens)
    (first, *_) = script.matcher().take_forced(1)
    driver.submit("a", PROMPT, 30, script=script, rules=RulesOfRequest.of(chr(33 + first)))
    driver.run()
    driver.assert_exact("a")
    assert driver.end("a").finish_reason is FinishReason.STOP
    assert driver.scheduler.statistics().accepted_tokens == 0


@pytest.mark.parametrize("outcome", [DecodeOutcome.ABORTED, DecodeOutcome.FATAL, DecodeOutcome.NO_KV_SLOT])
@pytest.mark.parametrize("finished_rows", range(5))
def test_after_a_decode_that_failed_only_the_answer_is_in_memory(outcome: DecodeOutcome, finished_rows: int) -> None:
    driver = driver_for()
    driver.submit("a", PROMPT, 100, script=SCRIPT)
    while not (driver.backend.plans and drafted(driver.backend.plans[-1]) > 2):
        driver.step()
    driver.backend.failures.append(ScriptedFailure(outcome, finished_rows))
    driver.run()
    driver.assert_exact("a")


def _wrong_guesses_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Residency.evaluated

    def evaluated(self: Residency, sequence: MemberSequence, run: PlannedRun, guessed: int = 0) -> int:
        return guessed or real(self, sequence, run, guessed)

    monkeypatch.setattr(Residency, "evaluated", evaluated)


def _each_guess_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = NextTokens.take

    def take(self: NextTokens, sequence: MemberSequence, run: PlannedRun, rows: Sequence[LogitsRow]) -> TokenVerdict:
        answer_end = len(sequence.tokens)
        verdict = real(self, sequence, run, rows)
        sequence.tokens[answer_end:] = run.tokens[answer_end - run.first_position :][
            : len(sequence.tokens) - answer_end
        ]
        return verdict

    monkeypatch.setattr(NextTokens, "take", take)


def _rows_are_read_in_reverse(monkeypatch: pytest.MonkeyPatch) -> None:
    real = NextTokens.take
    monkeypatch.setattr(
        NextTokens, "take", lambda self, sequence, run, rows: real(self, sequence, run, list(reversed(rows)))
    )


@pytest.mark.parametrize("plant", [_wrong_guesses_stay, _each_guess_is_believed, _rows_are_read_in_reverse])
def test_a_planted_fault_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(EngineDriver, "check_invariants", lambda self: None)
    monkeypatch.setattr(Scheduler, "check_invariants", lambda self: None)
    driver = driver_for()
    driver.submit("a", PROMPT, 100, script=SCRIPT)

    def run() -> None:
        driver.run()
        driver.assert_exact("a")

    with pytest.raises((AssertionError, ValueError, IndexError, RuntimeError)):
        run()


def test_an_idle_prefix_holds_no_guess() -> None:
    driver = driver_for()
    driver.submit("a", PROMPT, 12, script=SCRIPT)
    driver.run()
    (path,) = driver.scheduler._cache.idle_paths()
    whole = [*PROMPT, *driver.answer("a")]
    assert path == whole[: len(path)]
    assert len(path) >= len(whole) - 5
