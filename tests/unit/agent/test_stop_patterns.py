"""Stop regexes as automata, beside Python's own engine on every piece of the text."""

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.stop_patterns import MOST_STATES, RegexPattern, StopPatternError, stop_patterns

PATTERNS = [
    "foo",
    "a+b",
    "ab|ba",
    "[0-9]{2,3}",
    "^ab",
    "^a|b$",
    "(?:ab)+c?",
    "a.c",
    "(?i)aB",
    "[^ab]c",
    "a(b|bc)c",
    "\\d+\\.",
    "é|ß",
]


def earliest(pattern: str, text: str) -> tuple[int, int] | None:
    """End and beginning of the match that is complete first, by trying every piece of the text."""
    expression = re.compile(pattern)  # `^` is the beginning of the text wherever matching starts, `$` where it ends
    for end in range(1, len(text) + 1):
        for start in range(end):
            if expression.fullmatch(text, start, end):
                return end, start
    return None


@cache
def compiled(pattern: str) -> RegexPattern:
    return RegexPattern(pattern, 100)


def first_match(pattern: str, text: str) -> tuple[int, int] | None:
    search = compiled(pattern).search()
    for end, character in enumerate(text, 1):
        start = search.advance(character)
        if start is not None:
            return end, start
    return None


@given(pattern=st.sampled_from(PATTERNS), text=st.text("abcfo0189. éßAB", max_size=14))
def test_the_first_complete_match_is_the_one_that_trying_everything_finds(pattern: str, text: str) -> None:
    assert first_match(pattern, text) == earliest(pattern, text)


def test_what_may_become_a_match_is_told_from_its_beginning() -> None:
    search = RegexPattern("ab+c", 100).search()
    starts = []
    for character in "xabbxab":
        search.advance(character)
        starts.append(search.earliest_start)
    assert starts == [None, 1, 1, 1, None, 5, 5]


def test_a_pattern_that_must_begin_the_answer_holds_nothing_later() -> None:
    search = RegexPattern("^ab", 100).search()
    assert search.advance("x") is None
    assert search.earliest_start is None
    assert search.advance("a") is None
    assert search.earliest_start is None


@pytest.mark.parametrize("pattern", ["a*", "", "(?:a|)", "$", "^"])
def test_a_regex_that_matches_nothing_written_is_refused(pattern: str) -> None:
    with pytest.raises(StopPatternError, match="empty text"):
        RegexPattern(pattern, 100)


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", "(a)\\1", "[z-a]", "\\b"])
def test_what_no_automaton_follows_is_refused_with_its_place(pattern: str) -> None:
    with pytest.raises(StopPatternError, match="line 1, column"):
        RegexPattern(pattern, 100)


@pytest.mark.parametrize("pattern", ["a{5000}", "(a{40}){40}", "(a|b)*a(a|b){14}", "(?:(?:a{0,30}){0,30}){0,30}b"])
def test_a_regex_that_is_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(StopPatternError, match="too large"):
        RegexPattern(pattern, MOST_STATES)


def test_the_regexes_of_a_request_share_one_budget() -> None:
    assert len(stop_patterns(["a{200}", "b{200}", "a{200}"])) == 2
    with pytest.raises(StopPatternError, match="too large"):
        stop_patterns(["a{200}", "b{200}", "c{200}"])


def test_the_regex_at_fault_is_told_apart() -> None:
    with pytest.raises(StopPatternError, match=r"^the one at index 2: line 1, column 1"):
        stop_patterns(["a", "a", "("])


def test_each_character_costs_the_same_however_long_the_text_is() -> None:
    search = RegexPattern("(?:x+x+)+y", 100).search()
    for _ in range(20_000):
        assert search.advance("x") is None
    assert search.advance("y") == 0
