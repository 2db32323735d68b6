"""Stop strings and patterns in a text that grows: however it is cut, the same match ends it, unseen."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.stop_search import LONGEST_HELD_CHARACTERS, StopSearch, StopStrings
from agent.stop_patterns import RegexPattern, stop_patterns


def search(*strings: str, keeps_match: bool = False, regexes: tuple[str, ...] = ()) -> StopSearch:
    return StopSearch(StopStrings(strings), stop_patterns(regexes), keeps_match=keeps_match)


def run(machine: StopSearch, pieces: list[str]) -> tuple[list[str], str | None]:
    """What was sent for each piece, and what ended it; without a match the last is what was flushed."""
    sent = []
    for piece in pieces:
        text, match = machine.push(piece, may_end=True)
        sent.append(text)
        if match is not None:
            return sent, match
    return [*sent, machine.flush()], None


def cut(text: str, places: list[int]) -> list[str]:
    borders = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:stop] for start, stop in pairwise(borders)]


def slow(text: str, strings: list[str]) -> tuple[int, int, str] | None:
    """End, beginning and string of the first complete match."""
    for end in range(1, len(text) + 1):
        found = [(end - len(one), one) for one in strings if text[:end].endswith(one)]
        if found:
            return (end, *min(found))
    return None


@given(
    text=st.text("abc", max_size=24),
    strings=st.lists(st.text("abc", min_size=1, max_size=5), max_size=5, unique=True),
    places=st.lists(st.integers(0, 100), max_size=8),
    keeps_match=st.booleans(),
)
def test_the_first_complete_match_ends_it_however_the_text_is_cut(
    text: str, strings: list[str], places: list[int], keeps_match: bool
) -> None:
    sent, match = run(search(*strings, keeps_match=keeps_match), cut(text, places))
    expected = slow(text, strings)
    assert match == (expected[2] if expected else None)
    end = len(text)
    if expected is not None:
        end = expected[0] if keeps_match else expected[1]
    assert "".join(sent) == text[:end]


@given(
    text=st.text("abc", max_size=20),
    strings=st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=4, unique=True),
    places=st.lists(st.integers(0, 100), max_size=6),
)
def test_strings_and_the_same_as_regexes_do_the_same(text: str, strings: list[str], places: list[int]) -> None:
    pieces = cut(text, places)
    assert run(search(*strings), pieces) == run(search(regexes=tuple(strings)), pieces)


@given(text=st.text("ab", max_size=20), string=st.text("ab", min_size=1, max_size=6))
def test_exactly_what_may_become_a_match_is_held(text: str, string: str) -> None:
    machine = search(string)
    for length, character in enumerate(text, 1):
        if machine.push(character, may_end=True)[1] is not None:
            return
        beginnings = [string[:size] for size in range(len(string), -1, -1) if text[:length].endswith(string[:size])]
        assert machine.held == beginnings[0]


def test_what_is_held_goes_out_once_when_it_does_not_match() -> None:
    machine = search("STOP")
    assert run(machine, ["a ST", "O", "R", "ST"]) == (["a ", "", "STOR", "", "ST"], None)
    assert machine.flush() == ""


def test_a_match_that_may_not_end_it_is_ordinary_text() -> None:
    machine = search("ab", "bcd")
    assert machine.push("xab", may_end=False) == ("xa", None)  # the b may begin the other one
    assert machine.push("c", may_end=True) == ("", None)
    assert machine.push("d!", may_end=True) == ("", "bcd")


def test_text_behind_the_match_in_the_same_piece_is_dropped() -> None:
    assert search("b").push("abc", may_end=True) == ("a", "b")
    assert search("b", keeps_match=True).push("abc", may_end=True) == ("ab", "b")


def test_earliest_in_the_text_wins_and_not_first_in_the_list() -> None:
    assert search("F", "E").push("D E F", may_end=True) == ("D ", "E")


def test_a_pattern_holds_a_bounded_tail_and_still_ends_the_answer() -> None:
    machine = search(regexes=("a.*z",))
    text, _ = machine.push("a" + "-" * 5000, may_end=True)
    assert len(machine.held) == LONGEST_HELD_CHARACTERS
    assert len(text) == 5001 - LONGEST_HELD_CHARACTERS
    assert machine.push("z", may_end=True) == ("", "a.*z")  # all that was held is part of the match


@pytest.mark.parametrize("keeps_match", [False, True])
def test_a_pattern_names_itself_and_cuts_what_it_matched(keeps_match: bool) -> None:
    machine = search(regexes=("[0-9]{2}",), keeps_match=keeps_match)
    assert run(machine, ["x1y", "2", "3!"]) == (["x1y", "", "23" if keeps_match else ""], "[0-9]{2}")


def test_patterns_may_be_shared() -> None:
    pattern = RegexPattern("ab", 10)
    one, other = (StopSearch(StopStrings(()), [pattern], keeps_match=False) for _ in range(2))
    one.push("a", may_end=True)
    assert other.push("b", may_end=True) == ("b", None)
    assert one.push("b", may_end=True) == ("", "ab")
