"""The text that a client sent, places in it, and the bounds that every front end keeps.

Line ends are LF, CRLF and CR alone, as in llama.cpp's and XGrammar's parsers.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence

from agent.constraint.errors import GrammarError
from agent.constraint.tree import Position

MAX_NESTING = 50
"""Groups inside groups. The library takes fewer than 100 levels of its own, and to compare two trees of 300 levels is
more than Python's stack holds."""

MAX_DEPTH = 4 * MAX_NESTING + 2
"""Nodes inside nodes: a group may be a repetition of a choice of sequences, and operators may follow each other."""

MAX_PIECES = 40_000
"""Literals, classes, references, operators and groups in one text. They take 15 microseconds each to read."""

MAX_REPETITIONS = 1_000_000
"""In `{n,m}`. Above that one mask takes a second, and the counts of the library end at 2^31."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


class Source:
    """One text. Offsets count characters from 0. Raises GrammarError for NUL and lone surrogates in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._line_starts = [0, *(found.end() for found in _LINE_END.finditer(text))]
        unusable = _UNUSABLE.search(text)
        if unusable is not None:
            name = "a NUL character" if unusable.group() == "\0" else "half of a surrogate pair"
            raise self.error(unusable.start(), f"the text holds {name}; remove it")

    def position(self, offset: int) -> Position:
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def error(self, offset: int, sentence: str) -> GrammarError:
        return GrammarError(sentence, self.position(offset))

    def found(self, offset: int) -> str:
        """What stands there, for the end of a sentence: `'x'`, or words for the end of the line or the text."""
        if offset >= len(self.text):
            return "the end of the text"
        letter = self.text[offset]
        return "the end of the line" if letter in "\r\n" else repr(letter)


class InnerSource(Source):
    """A text that was spelled inside another, as a regex in a literal: its places are places in the outer one."""

    def __init__(self, text: str, outer: Source, offsets: Sequence[int]) -> None:
        """`offsets[i]`: where character i is spelled in `outer`; one more for the end."""
        self._outer = outer
        self._offsets = offsets
        super().__init__(text)

    def position(self, offset: int) -> Position:
        return self._outer.position(self._offsets[offset])


def repetition_count(digits: str, source: Source, offset: int) -> int:
    """The number that `digits` spell. Raises GrammarError when it is over MAX_REPETITIONS."""
    if len(digits.lstrip("0")) > len(str(MAX_REPETITIONS)) or int(digits) > MAX_REPETITIONS:
        raise source.error(
            offset, f"the repetition count is over {MAX_REPETITIONS}; use a smaller one, or no upper bound"
        )
    return int(digits)
