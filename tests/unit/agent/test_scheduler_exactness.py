"""Whatever happens to a request, its tokens are those of a run alone; and the test that says so can fail.

The backend answers from its own cells (see `scripted_backend`), so a wrong cell, token or position anywhere on the
way shows in the answer.
"""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core import batch_plan, residency, scheduler, step_filling
from agent.core.backend import DecodeOutcome, LogprobsWanted, PlannedRun
from agent.core.prefix_cache import PrefixCache
from agent.core.prefix_tree import PrefixMatch
from agent.core.sequence import MemberSequence
from tests.support.engine_driver import EngineDriver, RulesOfRequest
from tests.support.oracle_drafts import use_oracle
from tests.support.scripted_backend import (
    VOCABULARY_SIZE,
    ScriptedBackend,
    ScriptedFailure,
    ScriptedRow,
    prompt_with_answer,
    scripted_backend,
)
from tests.support.scripted_constraint import ConstraintScript, ScriptedMatcher
from tests.support.small_pieces import use_small_pieces

FAILURES = [DecodeOutcome.NO_KV_SLOT, DecodeOutcome.ABORTED, DecodeOutcome.FATAL, DecodeOutcome.INVALID_BATCH]

scripts = st.builds(
    ConstraintScript,
    salt=st.integers(0, 50),
    length=st.sampled_from([20, 6, 0]) | st.integers(0, 20),
    forced_share=st.sampled_from([2, 0, 5, 9, 10]),
    may_end_early=st.booleans(),
    breaks_at=st.none() | st.integers(0, 20),
)

# One character for each token, so that short strings come up; two that begin alike, and one that ends like another.
strings = st.lists(st.text("!\"#$%&'()*+,-./0123456789é", min_size=1, max_size=2), max_size=3, unique=True)
tokens = st.integers(0, VOCABULARY_SIZE - 1)
rules = st.builds(
    lambda texts, logprobs, **others: RulesOfRequest.of(*texts, logprobs=logprobs, **others),
    texts=strings
    | st.just(["!", "$"])
    | st.lists(st.sampled_from([chr(code) for code in range(33, 123)]), max_size=32),
    logprobs=st.none()
    | st.builds(
        LogprobsWanted,
        top_count=st.integers(0, 2),
        token_ids=st.lists(tokens, max_size=2).map(tuple),
        prompt_start=st.none() | st.integers(0, 12),
    ),
    token_ids=st.frozensets(tokens, max_size=20),
    keeps_match=st.booleans(),
    min_tokens=st.sampled_from([0, 0, 1, 2, 5]),
    ignores_end=st.booleans(),
)

actions = st.one_of(
    st.tuples(
        st.just("submit"),
        st.integers(0, 3),  # which of four common beginnings
        st.integers(0, 30),  # how much of it
        st.lists(st.integers(1, 4), max_size=6),  # an end of its own
        st.sampled_from([12, 30]) | st.integers(1, 12),  # max_tokens
        st.integers(-1, 1),  # priority
        st.none() | scripts,  # half of them free, half constrained
        st.none() | rules,
        st.sampled_from([None, None, None, "a", "b"]),  # adapter
    ),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("step"), st.integers(1, 6)),
    st.tuples(st.just("fail"), st.sampled_from(FAILURES), st.integers(0, 12)),
)


@settings(deadline=None)
@given(
    script=st.lists(actions, max_size=30),
    cells=st.sampled_from([12, 20, 33, 64, 200]),
    batch=st.sampled_from([1, 3, 8, 40]),
    slots=st.integers(1, 5),
    chunk=st.sampled_from([1, 4, 16]),
    can_share=st.booleans(),
    store_bytes=st.sampled_from([0, 150, 600, 10**6]),
    draft_tokens=st.sampled_from([7, 2, 0]),
    request_limit=st.sampled_from([None, 15, 40]),
)
def test_whatever_happens_each_answer_is_that_of_a_run_alone(
    script: list[tuple],
    cells: int,
    batch: int,
    slots: int,
    chunk: int,
    can_share: bool,
    store_bytes: int,
    draft_tokens: int,
    request_limit: int | None,
) -> None:
    limit = min(request_limit or cells, cells)
    backend = scripted_backend(cells, batch, ids=slots + 1, request_limit=limit, can_share=can_share)
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_small_pieces(monkeypatch)
        use_oracle(monkeypatch)
        play(script, EngineDriver(backend, slots, chunk, store_bytes=store_bytes, draft_tokens=draft_tokens))
    if not can_share:
        assert backend.cells == []


def play(script: list[tuple], driver: EngineDriver) -> None:
    """Do what the script says, run everything to its end, check every answer."""
    claimed_full = 0
    for action in script:
        match action:
            case ("submit", which, shared, ending, max_tokens, priority, script_of_constraint, rules_of_request, name):
                prompt = [1 + (which + index * 5) % 60 for index in range(shared)] + ending
                options = (max_tokens, priority, script_of_constraint, rules_of_request, name)
                driver.submit(driver.arrivals, prompt, *options)
            case ("cancel", key):
                driver.cancel(key)
            case ("step", count):
                for _ in range(count):
                    driver.step()
            case ("fail", outcome, rows):
                claimed_full += outcome is DecodeOutcome.NO_KV_SLOT
                driver.backend.failures.append(ScriptedFailure(outcome, rows))
    driver.run()
    for key in driver.submitted:
        driver.assert_exact(key)
    assert driver.backend.outcomes.count(DecodeOutcome.NO_KV_SLOT) <= claimed_full, "a plan did not fit"


def busy_run(store_bytes: int = 0) -> EngineDriver:
    """Shared prompts, a pool that is too small, an abort: each way in which cells change hands, in a few steps."""
    driver = EngineDriver(scripted_backend(cells=70, batch=16, ids=4), slots=3, chunk=8, store_bytes=store_bytes)
    common = prompt_with_answer(30, 12)
    driver.submit("first", common, 12)
    driver.submit("second", [*common[:25], 3, 4, 5], 12)
    driver.submit("other", prompt_with_answer(18, 14, salt=3), 14)
    for _ in range(5):
        driver.step()
    driver.backend.failures.append(ScriptedFailure(DecodeOutcome.ABORTED, 2))
    for _ in range(3):
        driver.step()
    driver.submit("again", [*common, 7], 12)
    driver.submit("late", prompt_with_answer(20, 14, salt=5), 14)
    driver.submit("constrained", [*common[:20], 9, 9], 30, script=ConstraintScript(3, length=20, forced_share=6))
    driver.run()
    for key in driver.submitted:
        driver.assert_exact(key)
    return driver


def test_the_busy_run_is_exact() -> None:
    driver = busy_run()
    statistics = driver.scheduler.statistics()
    assert statistics.set_aside_total
    assert statistics.reused_prompt_tokens
    assert statistics.evicted_tokens
    assert DecodeOutcome.ABORTED in driver.backend.outcomes


def test_the_busy_run_is_exact_with_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pieces(monkeypatch)
    store = busy_run(10**6).scheduler.statistics().store
    assert store.saved_tokens >= store.stored_tokens > 50
    assert store.restored_tokens > 20


def _one_token_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix is believed to agree one token further than it does."""
    real = PrefixCache.match

    def match(self: PrefixCache, tokens: list[int], most: int | None = None, adapter: str | None = None) -> PrefixMatch:
        found = real(self, tokens, most, adapter)
        longer = min(found.tokens + 1, len(tokens) - 1, found.run.stop)
        return PrefixMatch(longer, found.sequence_id, found.run)

    monkeypatch.setattr(PrefixCache, "match", match)


def _a_copy_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedBackend, "copy_prefix", lambda *_: None)
    monkeypatch.setattr(ScriptedBackend, "_check", lambda *_: None)  # which would refuse the gap in the positions


def _cells_of_another_prompt_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy_prefix(self: ScriptedBackend, source: int, target: int, tokens: int) -> None:
        others = {holder for cell in self.cells for holder in cell.holders} - {source, target}
        longest = max(others, key=self.evaluated_tokens, default=source)
        for cell in self.cells:
            if longest in cell.holders and cell.position < tokens:
                cell.holders.add(target)

    monkeypatch.setattr(ScriptedBackend, "copy_prefix", copy_prefix)
    monkeypatch.setattr(ScriptedBackend, "_check", lambda *_: None)


def _tokens_slip_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right positions, but each chunk after the first repeats the token before it."""

    def slipped(sequence: MemberSequence, rows: int) -> PlannedRun:
        run = batch_plan.planned_run(sequence, rows)
        start = max(0, run.first_position - 1)
        return PlannedRun(run.sequence_id, sequence.tokens[start : start + rows], run.first_position, run.wants_logits)

    monkeypatch.setattr(step_filling, "planned_run", slipped)


def _rows_are_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member reads the logits of another one's row."""

    def logits(self: ScriptedBackend, row: int) -> ScriptedRow:
        assert self._rows is not None
        return ScriptedRow(self._rows[-1 - row])

    monkeypatch.setattr(ScriptedBackend, "logits", logits)


def _lost_logits_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an abort a row that was evaluated counts as done, though nothing was sampled from it."""

    def evaluated_in_part(self: residency.Residency, sequence: MemberSequence, run: PlannedRun) -> None:
        sequence.evaluated = self._cache.read_back(run.sequence_id, run.tokens)

    monkeypatch.setattr(residency.Residency, "evaluated_in_part", evaluated_in_part)


def _a_forced_run_is_appended_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ScriptedMatcher.take_forced
    monkeypatch.setattr(ScriptedMatcher, "take_forced", lambda self, limit: [*real(self, limit)] * 2)


def _forced_tokens_are_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last pending token goes into the batch, at the place of the first."""

    def last_only(sequence: MemberSequence, rows: int) -> PlannedRun:
        run = batch_plan.planned_run(sequence, rows)
        skips = run.wants_logits and run.first_position >= sequence.prompt_tokens
        tokens = run.tokens[-1:] if skips else run.tokens
        return PlannedRun(run.sequence_id, tokens, run.first_position, run.wants_logits)

    monkeypatch.setattr(step_filling, "planned_run", last_only)


def _a_mask_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedMatcher, "mask", lambda self, logits: True)


def _an_answer_loses_a_token_when_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    real = residency.Residency.set_aside

    def set_aside(self: residency.Residency, sequence: MemberSequence) -> None:
        real(self, sequence)
        sequence.tokens[-1] = 1

    monkeypatch.setattr(residency.Residency, "set_aside", set_aside)


@pytest.mark.parametrize(
    "plant",
    [
        _one_token_too_many,
        _a_copy_is_skipped,
        _cells_of_another_prompt_are_copied,
        _tokens_slip_by_one,
        _rows_are_swapped,
        _lost_logits_are_not_asked_for_again,
        _a_forced_run_is_appended_twice,
        _forced_tokens_are_not_evaluated,
        _a_mask_is_forgotten,
        _an_answer_loses_a_token_when_set_aside,
    ],
)
def test_a_planted_fault_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    # The invariants would notice most of these as well; here only what the client gets counts.
    monkeypatch.setattr(EngineDriver, "check_invariants", lambda self: None)
    monkeypatch.setattr(scheduler.Scheduler, "check_invariants", lambda self: None)
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        busy_run()
