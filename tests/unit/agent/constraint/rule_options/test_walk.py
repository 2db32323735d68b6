"""Walks through rules with options, against an oracle that knows every way to read a text."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary
from agent.constraint.rule_options.readings import MOST_OPEN_RULES
from agent.constraint.rule_options.walk import RuleWalk
from agent.constraint.token_mask import MaskWriter
from agent.constraint.tree import RuleOptions
from agent.constraint.walk_costs import Wear
from tests.support.bracketed_language import FIRST_ENTRY, STOP, BracketOracle, TokenRule, parts_of
from tests.support.scripted_llguidance import ScriptedForm

SIZE = 70
VOCABULARY = ConstraintVocabulary(ScriptedForm(FIRST_ENTRY + 10), SIZE, (STOP,))
A, B, C = 1, 2, 65


def walk_over(*rules: TokenRule, limits: ConstraintLimits | None = None, wear: Wear | None = None) -> RuleWalk:
    root: Any = parts_of(rules, FIRST_ENTRY + 10)
    return RuleWalk(root, VOCABULARY, MaskWriter(SIZE), limits or ConstraintLimits(), wear or Wear())


def masked(walk: RuleWalk) -> set[int]:
    row = np.zeros(SIZE, dtype=np.float32)
    assert walk.mask(row)
    return set(np.flatnonzero(row == 0).tolist())


@st.composite
def token_rules(draw: st.DrawFn) -> tuple[TokenRule, ...]:
    """One to three rules, later ones inside earlier ones."""
    count = draw(st.integers(1, 3))
    rules = []
    for number in range(count):
        entries = [FIRST_ENTRY + inner for inner in range(number + 1, count)]
        texts = st.lists(st.sampled_from([A, B, C, *entries, *entries]), min_size=1, max_size=3).map(tuple)
        language = draw(st.lists(texts, min_size=1, max_size=3, unique=True))
        most = draw(st.none() | st.integers(1, 3))
        warmth = draw(st.none() | st.sampled_from([0.0, 0.5, 1.5]))
        rules.append(TokenRule(tuple(language), RuleOptions(most, warmth)))
    return tuple(rules)


@given(token_rules(), st.data())
def test_at_each_place_follows_what_follows_in_any_reading_in_which_spent_rules_end(
    rules: tuple[TokenRule, ...], data: st.DataObject
) -> None:
    oracle, walk = BracketOracle(rules), walk_over(*rules)
    tokens: list[int] = []
    while True:
        expected = oracle.after(tokens)
        assert not walk.failed
        assert walk.is_finished == (not expected.tokens)
        assert walk.temperature == expected.temperature
        assert {token for token in (*range(SIZE), FIRST_ENTRY) if walk.allows(token)} == expected.tokens
        assert masked(walk) == expected.tokens | ({STOP} if expected.may_end else set())
        if not expected.tokens:
            assert expected.may_end
            return
        if data.draw(st.booleans()) and (forced := walk.take_forced(data.draw(st.integers(1, 3)))):
            for token in forced:
                assert oracle.after(tokens)[:2] == (frozenset((token,)), False)
                tokens.append(token)
            continue
        tokens.append(data.draw(st.sampled_from(sorted(expected.tokens))))
        assert walk.accept(tokens[-1])


def rule(*language: tuple[int, ...], max_tokens: int | None = None, temperature: float | None = None) -> TokenRule:
    return TokenRule(language, RuleOptions(max_tokens, temperature))


def inner(number: int) -> int:
    return FIRST_ENTRY + number


def test_a_spent_rule_ends_where_it_can_and_no_sooner() -> None:
    pairs = [(A, B) * count for count in range(1, 9)]
    walk = walk_over(rule((inner(1), C)), rule(*pairs, max_tokens=3))
    for token in (A, B, A):
        assert walk.accept(token)
    assert masked(walk) == {B}, "it cannot end between A and B"
    assert walk.accept(B)
    assert masked(walk) == {C}


def test_each_occurrence_has_a_count_of_its_own() -> None:
    walk = walk_over(rule((inner(1), C, inner(1), C)), rule(*[(A,) * count for count in range(1, 9)], max_tokens=2))
    for token in (A, A, C, A):
        assert walk.accept(token)
    assert masked(walk) == {A, C}
    assert walk.accept(A)
    assert walk.take_forced(5) == [C]
    assert walk.is_finished


def test_of_different_temperatures_the_highest_is_taken_and_of_nested_rules_the_inner_one_s() -> None:
    walk = walk_over(
        rule((C, inner(1), C, C), temperature=1.5),
        rule((inner(2), B), temperature=1.0),
        rule((A,), (A, A), temperature=0.25),
    )
    assert walk.temperature == 1.5
    assert walk.accept(C)
    assert walk.temperature == 0.25, "where nothing but the inner rule can go on"
    assert walk.accept(A)
    assert walk.temperature == 1.0, "the inner rule may go on, or the middle one"
    assert walk.accept(B)
    assert walk.temperature == 1.5


def test_a_text_that_can_be_read_in_countless_ways_is_followed_in_some_of_them() -> None:
    texts = [(A,) * count for count in range(1, 30)]
    walk = walk_over(rule(*[(inner(1),) * count for count in range(1, 30)]), rule(*texts, max_tokens=3))
    for _ in range(25):
        assert masked(walk) >= {A}
        assert walk.accept(A)
    assert STOP in masked(walk)
    assert not walk.failed


def test_a_rule_that_ends_with_itself_goes_as_deep_as_it_likes_and_is_as_old_as_its_first_occurrence() -> None:
    part: Any = parts_of([rule((A, inner(1)), (B,)), rule((A, B))], FIRST_ENTRY + 10)
    part.entries = [(inner(1), part)]
    walk = RuleWalk(part, VOCABULARY, MaskWriter(SIZE), ConstraintLimits(), Wear())
    for _ in range(2 * MOST_OPEN_RULES):
        assert walk.accept(A)
    assert masked(walk) == {A, B}
    assert walk.accept(B)
    assert walk.is_finished


def test_a_rule_that_may_end_with_itself_has_one_count_for_all_of_them() -> None:
    part: Any = parts_of([rule((A, inner(1)), (A,), max_tokens=3), rule((A, B))], FIRST_ENTRY + 10)
    part.entries = [(inner(1), part)]
    walk = RuleWalk(part, VOCABULARY, MaskWriter(SIZE), ConstraintLimits(), Wear())
    for _ in range(3):
        assert masked(walk) >= {A}
        assert walk.accept(A)
    assert walk.is_finished


def test_masks_are_charged_to_the_walk_whoever_asks_for_them() -> None:
    limits = ConstraintLimits(run_seconds=-1.0, run_seconds_per_token=0.0)
    warm = walk_over(rule((inner(1), B), (A,)), rule((C,), temperature=1.0), limits=limits)
    assert warm.temperature is not None
    assert warm.failed


def test_a_rule_inside_itself_too_deep_fails_where_nothing_else_can_follow() -> None:
    part: Any = parts_of([rule((A, inner(1), C), (B,)), rule((A, B))], FIRST_ENTRY + 10)
    part.entries = [(inner(1), part)]
    walk = RuleWalk(part, VOCABULARY, MaskWriter(SIZE), ConstraintLimits(), Wear())
    for _ in range(MOST_OPEN_RULES):
        assert walk.accept(A)
    assert not walk.mask(np.zeros(SIZE, dtype=np.float32))
    assert walk.failed


def test_a_token_is_allowed_where_the_mask_has_it() -> None:
    walk = walk_over(rule((inner(1),), (B, C)), rule((A, C), max_tokens=1))
    assert {token for token in range(SIZE) if walk.allows(token)} == masked(walk) == {A, B}


def test_what_begins_in_too_many_ways_fails_at_once() -> None:
    def each_begins_with_any_later_one(count: int) -> list[TokenRule]:
        return [rule(*[(inner(later),) for later in range(number + 1, count)], (A,)) for number in range(count)]

    assert walk_over(*each_begins_with_any_later_one(6)).accept(A)
    assert walk_over(*each_begins_with_any_later_one(10)).failed


def test_a_token_that_cannot_follow_and_the_end_are_refused_for_good() -> None:
    for token in (C, STOP, -1, SIZE, inner(1)):
        walk = walk_over(rule((A, inner(1))), rule((B,), max_tokens=1))
        assert not walk.accept(token)
        assert walk.failed
        assert not walk.is_finished
        assert not walk.mask(np.zeros(SIZE, dtype=np.float32))
        assert not walk.take_forced(3)
        assert not walk.allows(A)
        assert not walk.allowed().size


def test_a_broken_matcher_fails_the_walk_and_is_named_to_who_keeps_the_form() -> None:
    wear = Wear()
    walk = walk_over(rule((A, A), (A, B), max_tokens=1), wear=wear)
    for reading in walk._choices.readings:
        reading.matcher.error = True  # type: ignore[attr-defined]
    assert not walk.mask(np.zeros(SIZE, dtype=np.float32))
    assert walk.failed
    assert wear.is_broken


def test_a_walk_that_takes_more_than_its_time_fails() -> None:
    limits = ConstraintLimits(run_seconds=-1.0, run_seconds_per_token=0.0)
    walk = walk_over(rule((A,), max_tokens=1), limits=limits)
    assert not walk.mask(np.zeros(SIZE, dtype=np.float32))
    assert walk.failed


def test_forced_tokens_stop_where_a_rule_begins_or_ends_and_at_the_limit() -> None:
    walk = walk_over(rule((A, B, inner(1), C)), rule((A, A, A), max_tokens=9))
    assert walk.take_forced(0) == ()
    assert walk.take_forced(1) == [A]
    assert walk.take_forced(9) == [B]
    forced: list[int] = []
    while taken := walk.take_forced(2):
        forced += taken
    if not forced:  # the rule outside it could begin it, too
        assert walk.accept(A)
        forced = [A, *walk.take_forced(9), *walk.take_forced(9)]
    assert forced == [A, A, A, C]
    assert walk.is_finished
