"""What breaks, stalls or allows nothing is found before the first request walks it."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary, LlguidanceMatcher
from agent.constraint.token_mask import MaskWriter
from agent.constraint.trial_run import EMPTY_LANGUAGE, TOO_COMPLEX, walk, warm
from tests.support.scripted_llguidance import END, ScriptedForm, ScriptedLLMatcher

SIZE = 8
GENEROUS = ConstraintLimits(first_mask_seconds=60.0, step_seconds=60.0, trial_seconds=60.0)


def matcher(places: Sequence[Collection[int]], **fields: Any) -> LlguidanceMatcher:
    vocabulary = ConstraintVocabulary(ScriptedForm(SIZE), SIZE, (END,))
    return LlguidanceMatcher(ScriptedLLMatcher(places, **fields), vocabulary, MaskWriter(SIZE), GENEROUS)


def test_a_good_constraint_passes() -> None:
    warm(matcher([{1, 2}, {3}, {4, 5}]), GENEROUS)
    walk(matcher([{1, 2}, {3}, {4, 5}]), GENEROUS)
    walk(matcher([{1, 2}] * 100), GENEROUS)
    walk(matcher([{END, 1}] * 3), GENEROUS)


def test_the_empty_output_passes() -> None:
    warm(matcher([]), GENEROUS)
    walk(matcher([]), GENEROUS)


def test_an_empty_language_is_found_in_the_first_mask() -> None:
    with pytest.raises(GrammarError, match=EMPTY_LANGUAGE[:20]):
        warm(matcher([{1}], breaks_at=0), GENEROUS)


@pytest.mark.parametrize("breaks_at", [1, 3, 12])
def test_a_constraint_that_breaks_later_is_found(breaks_at: int) -> None:
    with pytest.raises(GrammarError, match=TOO_COMPLEX[:20]):
        walk(matcher([{1, 2}] * 50, breaks_at=breaks_at), GENEROUS)


def test_only_so_many_tokens_are_walked() -> None:
    walk(matcher([{1, 2}] * 50, breaks_at=40), GENEROUS)


def test_a_step_that_takes_too_long_is_refused() -> None:
    with pytest.raises(GrammarError, match=TOO_COMPLEX[:20]):
        walk(matcher([{1, 2}] * 50), ConstraintLimits(step_seconds=0.0, trial_seconds=60.0))


def test_a_first_mask_that_takes_too_long_is_refused() -> None:
    with pytest.raises(GrammarError, match=TOO_COMPLEX[:20]):
        warm(matcher([{1, 2}]), ConstraintLimits(first_mask_seconds=0.0))


def test_listing_what_is_allowed_is_not_part_of_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 262,144 tokens it takes half of what a step may cost, and an ordinary schema was refused for it."""
    monkeypatch.setattr(LlguidanceMatcher, "allowed", None)
    warm(matcher([{1, 2}] * 30), GENEROUS)
    walk(matcher([{1, 2}] * 30), GENEROUS)


def test_the_walk_ends_with_its_time() -> None:
    found = matcher([{1, 2}] * 50, breaks_at=1)
    walk(found, ConstraintLimits(trial_seconds=-1.0))
    assert not found.failed
