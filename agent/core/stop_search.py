"""Looks for stop strings and stop patterns in an answer's text as it grows, and holds back what may become one.

The earliest match is the one that is complete first; of several that end with the same character the longest. That is
the only reading that does not depend on how tokens cut the text: `ab` ends an answer before `abc` can be there.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

LONGEST_HELD_CHARACTERS = 1024
"""Of a text that a pattern may still match; more than this is let go. A match that is longer still ends the answer,
but only what was held can be cut off. Stop strings are held whole."""


class PatternSearch(Protocol):
    """A pattern's way through one text. Places are counted in characters from 0."""

    def advance(self, character: str) -> int | None:
        """Take the next character; returns where the longest match that ends with it begins, None: there is none."""

    @property
    def earliest_start(self) -> int | None:
        """Where the longest text begins that may still become a match."""


class StopPattern(Protocol):
    """A regular expression that never matches the empty text. Shared by all members of a request."""

    @property
    def pattern(self) -> str:
        """As the client wrote it."""

    def search(self) -> PatternSearch:
        """A way through a new text."""


@dataclass(slots=True)
class _Node:
    """A beginning of some of the strings. `held` characters of a text that leads here may still become a match."""

    depth: int
    longer: "dict[str, _Node]" = field(default_factory=dict)
    fallback: "_Node | None" = None  # the longest proper end of this text that is such a beginning too
    match: str | None = None  # the longest string that ends here
    held: int = 0


class StopStrings:
    """Aho and Corasick's automaton. Made once for a request; at most some 100,000 characters."""

    def __init__(self, strings: Iterable[str]) -> None:
        """`strings`: none of them empty."""
        self.start = _Node(0)
        for string in strings:
            node = self.start
            for character in string:
                node = node.longer.setdefault(character, _Node(node.depth + 1))
            node.match = string
        self._link()

    def step(self, node: _Node, character: str) -> _Node:
        """Where one more character leads."""
        while True:
            following = node.longer.get(character)
            if following is not None:
                return following
            if node.fallback is None:
                return node
            node = node.fallback

    def _link(self) -> None:
        pending = deque([self.start])
        while pending:
            node = pending.popleft()
            for character, child in node.longer.items():
                child.fallback = self.start if node.fallback is None else self.step(node.fallback, character)
                child.match = child.match or child.fallback.match
                child.held = child.depth if child.longer else child.fallback.held
                pending.append(child)


class StopSearch:
    """One answer's text: what was pushed and not let go yet is held."""

    def __init__(self, strings: StopStrings, patterns: Sequence[StopPattern], *, keeps_match: bool) -> None:
        self._strings = strings
        self._node = strings.start
        self._searches = [(one.pattern, one.search()) for one in patterns]
        self._keeps_match = keeps_match
        self._length = 0  # of the text so far
        self.held = ""

    def push(self, text: str, *, may_end: bool) -> tuple[str, str | None]:
        """Take more text; returns what may be sent now, and the string or pattern that ends the answer.

        may_end: False lets matches that end in this text pass. After a match nothing may be pushed any more: what
        was behind it is dropped.
        """
        strings = self._strings
        for index, character in enumerate(text):
            self._node = strings.step(self._node, character)
            self._length += 1
            start, found = self._length, None
            if self._node.match is not None:
                found = self._node.match
                start = self._length - len(found)
            for pattern, search in self._searches:
                begins = search.advance(character)
                if begins is not None and begins < start:
                    start, found = begins, pattern
            if found is not None and may_end:
                return self._cut(self.held + text[: index + 1], start), found
        self.held += text
        return self._let_go(), None

    def flush(self) -> str:
        """The answer ends without a match: what was held is ordinary text."""
        rest, self.held = self.held, ""
        return rest

    def _cut(self, text: str, start: int) -> str:
        self.held = ""
        if self._keeps_match:
            return text
        return text[: max(0, len(text) - (self._length - start))]

    def _let_go(self) -> str:
        keep = self._node.held
        for _, search in self._searches:
            start = search.earliest_start
            if start is not None:
                keep = max(keep, min(self._length - start, LONGEST_HELD_CHARACTERS))
        # What was let go once is gone: a pattern's earliest start may lie further back.
        split = max(0, len(self.held) - keep)
        text, self.held = self.held[:split], self.held[split:]
        return text
