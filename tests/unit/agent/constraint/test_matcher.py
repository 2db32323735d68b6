"""An error is asked for after each call, and final; the end stands where the output may end; forced runs are cut."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary, LlguidanceMatcher
from agent.constraint.token_mask import MaskWriter
from tests.support.scripted_llguidance import END, ScriptedForm, ScriptedLLMatcher

SIZE = 8
ENDS = (END, 7)


def walk_of(
    places: Sequence[Collection[int]], breaks_at: int | None = None, **limits: Any
) -> tuple[LlguidanceMatcher, ScriptedLLMatcher]:
    scripted = ScriptedLLMatcher(places, breaks_at)
    vocabulary = ConstraintVocabulary(ScriptedForm(SIZE), SIZE, ENDS)
    return LlguidanceMatcher(scripted, vocabulary, MaskWriter(SIZE), ConstraintLimits(**limits)), scripted


def masked(matcher: LlguidanceMatcher) -> list[int] | None:
    row = np.zeros(SIZE, dtype=np.float32)
    return np.flatnonzero(row == 0).tolist() if matcher.mask(row) else None


def test_the_row_keeps_what_may_follow() -> None:
    matcher, _ = walk_of([{1, 3}, {2}])
    assert masked(matcher) == [1, 3]
    assert matcher.accept(3)
    assert masked(matcher) == [2]
    finished = [matcher.is_finished]
    assert matcher.accept(2)
    finished.append(matcher.is_finished)
    assert finished == [False, True]
    assert not matcher.failed


def test_what_may_follow_can_be_asked_without_a_mask() -> None:
    matcher, scripted = walk_of([{1, 3}, {END, 2}, {4}, {5}])
    assert [token for token in range(-1, SIZE + 1) if matcher.allows(token)] == [1, 3]
    assert matcher.accept(3)
    assert [token for token in range(SIZE) if matcher.allows(token)] == [2], "of ends only the mask tells"
    assert matcher.accept(2)
    assert list(matcher.take_forced(1)) == [4]
    assert [token for token in range(SIZE) if matcher.allows(token)] == [5]
    assert "mask" not in scripted.calls


def test_nothing_may_follow_an_error_that_is_met_while_asking() -> None:
    matcher, _ = walk_of([{1}, {2}], breaks_at=1)
    assert matcher.allows(1)
    assert matcher.accept(1)
    assert not matcher.allows(2)
    assert matcher.failed
    assert masked(matcher) is None


def test_a_mask_of_nothing_but_the_end_is_not_believed_after_an_error() -> None:
    matcher, _ = walk_of([{1}, {2}, {3}], breaks_at=1)
    assert matcher.accept(1)
    row = np.zeros(SIZE, dtype=np.float32)
    assert not matcher.mask(row)
    assert row.tolist() == [0.0] * SIZE
    assert matcher.failed
    assert not matcher.is_finished
    assert not matcher.accept(2)
    assert not matcher.take_forced(4)


def test_an_error_while_a_token_is_accepted_is_final() -> None:
    matcher, _ = walk_of([{1}, {2}])
    assert not matcher.accept(2)
    assert matcher.failed
    assert masked(matcher) is None


def test_an_error_while_forced_tokens_are_looked_for_is_final() -> None:
    matcher, _ = walk_of([{1}, {2}], breaks_at=0)
    assert not matcher.take_forced(4)
    assert matcher.failed


def test_a_matcher_in_error_from_the_start_has_failed() -> None:
    scripted = ScriptedLLMatcher([{1}], error=True)
    vocabulary = ConstraintVocabulary(ScriptedForm(SIZE), SIZE, ENDS)
    assert LlguidanceMatcher(scripted, vocabulary, MaskWriter(SIZE), ConstraintLimits()).failed


def test_the_end_stays_where_the_output_may_end() -> None:
    matcher, _ = walk_of([{1}, {END, 2}])
    assert matcher.accept(1)
    assert masked(matcher) == [END, 2]
    assert not matcher.is_finished


def test_a_control_token_that_ends_answers_is_not_allowed_in_the_middle() -> None:
    matcher, _ = walk_of([{1, 7}, {2}])
    assert masked(matcher) == [1]
    assert not matcher.accept(7)
    assert matcher.failed


def test_where_only_such_a_token_could_follow_the_constraint_fails() -> None:
    matcher, _ = walk_of([{7}, {2}])
    assert masked(matcher) is None
    assert matcher.failed


def test_forced_tokens_are_accepted_and_cut_at_the_limit() -> None:
    matcher, scripted = walk_of([{1}, {2}, {3}, {4, 5}])
    assert list(matcher.take_forced(2)) == [1, 2]
    assert masked(matcher) == [3]
    assert list(matcher.take_forced(2)) == [3]
    assert scripted.position == 3
    assert list(matcher.take_forced(2)) == []
    assert scripted.calls["forced"] == 2, "what was cut off is not looked for again"
    assert masked(matcher) == [4, 5]


def test_a_forced_token_may_also_be_sampled() -> None:
    matcher, _ = walk_of([{1}, {2}, {3}, {4}])
    assert list(matcher.take_forced(1)) == [1]
    assert matcher.accept(2)
    assert list(matcher.take_forced(9)) == [3, 4]
    assert matcher.is_finished


def test_a_forced_run_ends_before_the_end() -> None:
    matcher, _ = walk_of([{1}, {7}, {2}])
    assert list(matcher.take_forced(9)) == [1]
    assert list(matcher.take_forced(9)) == []
    assert not matcher.failed


def test_a_walk_that_takes_more_than_its_share_of_time_fails() -> None:
    matcher, _ = walk_of([{1, 2}, {1, 2}], run_seconds=0.0, run_seconds_per_token=0.0)
    assert masked(matcher) is None
    assert matcher.failed


def test_a_row_that_is_longer_than_the_vocabulary_is_cut() -> None:
    matcher, _ = walk_of([{1, 2}])
    row = np.zeros(SIZE + 24, dtype=np.float32)
    assert matcher.mask(row)
    assert np.flatnonzero(row == 0).tolist() == [1, 2]
