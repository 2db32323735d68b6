"""Stop regexes as automata, so that looking for them costs the same for each character whatever was generated before.

The dialect and its refusals are those of the constraint `regex`. `^` is the beginning of the answer; `$` says nothing,
since whatever was generated last is the end of the text when it is looked at.
"""

import bisect
import time
from collections.abc import Iterable

from agent.constraint.errors import GrammarError
from agent.constraint.languages.regex import parse_regex
from agent.constraint.lark.alphabet import Alphabet, bits, classes_in
from agent.constraint.lark.automaton import Automaton, TooManyStates
from agent.constraint.lark.regular import RegularTrees
from agent.constraint.tree import CharacterClass

MOST_STATES = 512
"""Of all regexes of a request together; ordinary ones have ten. Each may cost 0.2 us for each character on the engine's
thread, where `[ab]{500}c` has a match begun at each of the last 500 characters."""

MOST_SECONDS = 1.0
"""Of CPU, for all regexes of a request, looked at before each: a single one takes some 1.5 s at most."""

_KNOWN_CHARACTERS = 4_096
_OUTSIDE = CharacterClass(((0xD800, 0xD800),))
"""Stands for "text that is not part of the match". No text holds a surrogate."""


class StopPatternError(ValueError):
    """The regex cannot be used. The message is one sentence for the client."""


class RegexPattern:
    """Implements `StopPattern`: the deterministic automaton of one regex, written down.

    By state: `rows` (the next state for each minterm), `accepting` (whether a match may end here), `leads_on` (whether
    any character leads on).
    """

    def __init__(self, pattern: str, most_states: int) -> None:
        """Raises StopPatternError, also for a regex that needs more than `most_states` states."""
        self.pattern = pattern
        try:
            node = parse_regex(pattern, outside=_OUTSIDE)
            self._alphabet = Alphabet([*classes_in(node), *classes_in(_OUTSIDE)])
            automaton = RegularTrees({}, self._alphabet).exact(node)
            _expand(automaton, most_states)
        except GrammarError as error:
            raise StopPatternError(str(error)) from None
        except TooManyStates:
            raise StopPatternError("the regex is too large; shorten its counted repetitions") from None
        self._outside = self._alphabet.mask(_OUTSIDE.ranges).bit_length() - 1
        self.rows = [_by_minterm(automaton, state) for state in range(len(automaton.accepting))]
        self.accepting = [self._accepts(automaton, state) for state in range(len(self.rows))]
        self.leads_on = [len(row) > (self._outside in row) for row in self.rows]
        inside = self.rows[0].get(self._outside)
        self._starts = () if inside is None else (inside,)
        self._minterms: dict[str, int] = {}
        self._lows, self._ranges = _sorted_ranges(self._alphabet)
        if any(self.accepting[state] for state in self.starts(is_beginning=True)):
            raise StopPatternError("the regex matches the empty text, so it would end every answer at once")

    def search(self) -> "RegexSearch":
        """A way through a new text."""
        return RegexSearch(self)

    def starts(self, *, is_beginning: bool) -> tuple[int, ...]:
        """States in which a match begins, at the beginning of the text or later."""
        return (0, *self._starts) if is_beginning else self._starts

    def minterm(self, character: str) -> int:
        """Which of the sets of characters that the regex tells apart it is in; negative: in none."""
        found = self._minterms.get(character)
        return self._find_minterm(character) if found is None else found

    # Private

    def _accepts(self, automaton: Automaton, state: int) -> bool:
        if automaton.accepting[state]:
            return True
        behind = self.rows[state].get(self._outside)
        return behind is not None and automaton.accepting[behind]

    def _find_minterm(self, character: str) -> int:
        code = ord(character)
        place = bisect.bisect_right(self._lows, code) - 1
        minterm = -1
        if place >= 0 and code <= self._ranges[place][0]:
            minterm = self._ranges[place][1]
        if len(self._minterms) >= _KNOWN_CHARACTERS:
            self._minterms.clear()
        self._minterms[character] = minterm
        return minterm


class RegexSearch:
    """One text, all its beginnings at once: for each state the earliest place from which it was reached."""

    def __init__(self, pattern: RegexPattern) -> None:
        self._pattern = pattern
        self._starts: dict[int, int] = {}  # by state
        self._length = 0

    @property
    def earliest_start(self) -> int | None:
        """Where the longest text begins that may still become a match."""
        leads_on = self._pattern.leads_on
        return min((start for state, start in self._starts.items() if leads_on[state]), default=None)

    def advance(self, character: str) -> int | None:
        """Take the next character; returns where the longest match that ends with it begins."""
        pattern, here = self._pattern, self._length
        rows, accepting, minterm = pattern.rows, pattern.accepting, pattern.minterm(character)
        found: int | None = None
        following: dict[int, int] = {}
        beginning = [(state, here) for state in pattern.starts(is_beginning=here == 0)]
        for state, start in (*self._starts.items(), *beginning):
            after = rows[state].get(minterm)
            if after is None:
                continue
            following[after] = min(start, following.get(after, start))
            if accepting[after] and (found is None or start < found):
                found = start
        self._starts = following
        self._length = here + 1
        return found


def stop_patterns(regexes: Iterable[str]) -> tuple[RegexPattern, ...]:
    """Blocks, for 2.5 seconds of CPU at most. Raises StopPatternError, with the number of the regex at fault."""
    patterns: dict[str, RegexPattern] = {}
    left, started = MOST_STATES, time.thread_time()
    for index, regex in enumerate(regexes):
        if regex in patterns:
            continue
        if time.thread_time() - started > MOST_SECONDS:
            raise StopPatternError("the regexes take too long to read; use fewer classes of letters in them")
        try:
            patterns[regex] = RegexPattern(regex, left)
        except StopPatternError as error:
            raise StopPatternError(f"the one at index {index}: {error}") from None
        left -= len(patterns[regex].rows)
    return tuple(patterns.values())


def _expand(automaton: Automaton, most_states: int) -> None:
    state = 0
    while state < len(automaton.accepting):
        if len(automaton.accepting) > most_states:
            raise TooManyStates
        automaton.transitions(state)
        state += 1


def _by_minterm(automaton: Automaton, state: int) -> dict[int, int]:
    return {minterm: target for mask, target in automaton.transitions(state) for minterm in bits(mask)}


def _sorted_ranges(alphabet: Alphabet) -> tuple[list[int], list[tuple[int, int]]]:
    """Lowest code points, and for each the highest and the minterm."""
    ranges = sorted(
        (low, high, minterm)
        for minterm in bits(alphabet.every_character)
        for low, high in alphabet.ranges(1 << minterm)
    )
    return [low for low, _, _ in ranges], [(high, minterm) for _, high, minterm in ranges]
