"""Where a text stands in a regular tree, with counted repetitions counted instead of written out.

One position for each character class that is written in the tree (Glushkov's automaton), and for each counted
repetition around it the number of the pass that it is in. `([A-Z][a-z]{2,9}\\. ){30}` has five positions, not 400, and
positions in the third and in the fourth sentence differ in a number only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.constraint.lark.alphabet import Alphabet, classes_in
from agent.constraint.tree import CharacterClass, Choice, CodePointRanges, Node, Reference, Repeat, Sequence, Text

MOST_CLASSES = 256
MOST_RANGES = 4_000
"""Of code points, in all classes together: an alphabet takes square time and memory."""
MOST_POSITIONS = 1_000
MOST_MOVES = 10_000
MOST_MOVES_FROM_ONE = 64
"""They are looked at for each character of an answer."""
MOST_LOOKS = 20_000
"""At nodes: rules that are named in many places are written out."""


class NotCountable(Exception):
    """The tree is too large, or holds what this form cannot say."""


class Loop(NamedTuple):
    """A counted repetition: 1 to `most` passes (None: without end), of which `least` must be there, of at least
    `shortest` characters each."""

    least: int
    most: int | None
    shortest: int


class Move(NamedTuple):
    """To `target`, keeping the counts of the first `kept` loops; with `again` the last of these begins another pass."""

    target: int
    kept: int
    again: bool


class Place(NamedTuple):
    """A position, and the pass of each loop around it, outermost first."""

    position: int
    passes: tuple[int, ...]


class _Part(NamedTuple):
    """Whether it matches the empty string, and the positions where it begins and ends."""

    is_nullable: bool
    first: list[int]
    last: list[int]


@dataclass(slots=True)
class Counting:
    """The positions of one tree. `masks[p]`: the minterms of position p; `loops[p]`: the counted loops around it."""

    alphabet: Alphabet
    masks: list[int] = field(default_factory=list)
    loops: list[tuple[Loop, ...]] = field(default_factory=list)
    moves: list[list[Move]] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: frozenset[int] = frozenset()
    is_nullable: bool = False

    @classmethod
    def of(cls, node: Node, rules: Mapping[str, Node]) -> "Counting":
        """Raises NotCountable. `rules`: what references lead to, in no circle."""
        counting = cls(Alphabet(_classes(node, rules)))
        whole = _Building(counting, rules).part(node, ())
        counting.first, counting.last, counting.is_nullable = whole.first, frozenset(whole.last), whole.is_nullable
        if any(len(ways) > MOST_MOVES_FROM_ONE for ways in counting.moves) or len(whole.first) > MOST_MOVES_FROM_ONE:
            raise NotCountable
        return counting

    def begin(self, minterm: int) -> list[Place]:
        """The places after the text's first character, which is of this minterm."""
        return [
            Place(position, (1,) * len(self.loops[position]))
            for position in self.first
            if self.masks[position] >> minterm & 1
        ]

    def after(self, place: Place, minterm: int) -> list[Place]:
        """The places after one more character."""
        found = []
        position, passes = place
        loops = self.loops[position]
        for target, kept, again in self.moves[position]:
            if not self.masks[target] >> minterm & 1 or not _may_leave(loops, passes, kept):
                continue
            counts = passes[:kept]
            if again:
                most = loops[kept - 1].most
                if most is not None and counts[-1] >= most:
                    continue
                counts = (*counts[:-1], counts[-1] + 1)
            found.append(Place(target, counts + (1,) * (len(self.loops[target]) - kept)))
        return found

    def may_end(self, place: Place) -> bool:
        """Whether the text may end here."""
        return place.position in self.last and _may_leave(self.loops[place.position], place.passes, 0)

    def within(self, place: Place, characters: int) -> tuple[int, ...]:
        """The place as far as `characters` more characters can tell: of passes that are left, no more than fit in."""
        found = [place.position]
        for loop, count in zip(self.loops[place.position], place.passes, strict=True):
            fitting = characters // loop.shortest + 2
            found.append(min(fitting, max(0, loop.least - count)))
            found.append(fitting if loop.most is None else min(fitting, loop.most - count))
        return tuple(found)


def _classes(node: Node, rules: Mapping[str, Node]) -> set[CodePointRanges]:
    found: set[CodePointRanges] = set()
    for one in (node, *rules.values()):
        for ranges in classes_in(one):
            found.add(ranges)
            if len(found) > MOST_CLASSES or len(ranges) > MOST_RANGES:
                raise NotCountable
    if sum(map(len, found)) > MOST_RANGES:
        raise NotCountable
    return found


def _may_leave(loops: tuple[Loop, ...], passes: tuple[int, ...], kept: int) -> bool:
    return all(count >= loop.least for loop, count in zip(loops[kept:], passes[kept:], strict=True))


class _Building:
    def __init__(self, counting: Counting, rules: Mapping[str, Node]) -> None:
        self._counting = counting
        self._rules = rules
        self._looks = self._moves = 0
        self._shortest: dict[str, int] = {}

    def part(self, node: Node, loops: tuple[Loop, ...]) -> _Part:
        self._look()
        match node:
            case CharacterClass(ranges):
                return self._one(self._counting.alphabet.mask(ranges), loops)
            case Text(text):
                masks = [self._counting.alphabet.mask_of_character(letter) for letter in text]
                return self._in_turn([self._one(mask, loops) for mask in masks], loops)
            case Sequence(parts):
                return self._in_turn([self.part(one, loops) for one in parts], loops)
            case Choice(options):
                inner = [self.part(option, loops) for option in options]
                return _Part(
                    any(one.is_nullable for one in inner),
                    [position for one in inner for position in one.first],
                    [position for one in inner for position in one.last],
                )
            case Reference(name):
                return self.part(self._rules[name], loops)
            case Repeat():
                return self._repeat(node, loops)
            case _:
                raise NotCountable

    def _one(self, mask: int, loops: tuple[Loop, ...]) -> _Part:
        counting = self._counting
        if len(counting.masks) >= MOST_POSITIONS:
            raise NotCountable
        counting.masks.append(mask)
        counting.loops.append(loops)
        counting.moves.append([])
        here = [len(counting.masks) - 1]
        return _Part(False, here, here)

    def _in_turn(self, parts: list[_Part], loops: tuple[Loop, ...]) -> _Part:
        whole = _Part(True, [], [])
        for part in parts:
            self._join(whole.last, part.first, len(loops), again=False)
            whole = _Part(
                whole.is_nullable and part.is_nullable,
                whole.first + part.first if whole.is_nullable else whole.first,
                whole.last + part.last if part.is_nullable else part.last,
            )
        return whole

    def _repeat(self, node: Repeat, loops: tuple[Loop, ...]) -> _Part:
        if node.most == 0:
            return _Part(True, [], [])
        if node.least <= 1 and node.most in (1, None):
            body = self.part(node.body, loops)
            if node.most is None:
                self._join(body.last, body.first, len(loops), again=False)
            return _Part(body.is_nullable or node.least == 0, body.first, body.last)
        shortest = self._shortest_of(node.body)
        if not shortest:
            raise NotCountable  # a pass of it may take no character
        body = self.part(node.body, (*loops, Loop(max(1, node.least), node.most, shortest)))
        self._join(body.last, body.first, len(loops) + 1, again=True)
        return _Part(node.least == 0, body.first, body.last)

    def _shortest_of(self, node: Node) -> int:
        """Characters of its shortest text."""
        self._look()
        match node:
            case CharacterClass():
                return 1
            case Text(text):
                return len(text)
            case Sequence(parts):
                return sum(map(self._shortest_of, parts))
            case Choice(options):
                return min(map(self._shortest_of, options))
            case Repeat(body, least):
                return least and least * self._shortest_of(body)
            case Reference(name):
                if name not in self._shortest:
                    self._shortest[name] = self._shortest_of(self._rules[name])
                return self._shortest[name]
            case _:
                raise NotCountable

    def _join(self, last: list[int], first: list[int], kept: int, *, again: bool) -> None:
        self._moves += len(last) * len(first)
        if self._moves > MOST_MOVES:
            raise NotCountable
        for position in last:
            self._counting.moves[position] += [Move(target, kept, again) for target in first]

    def _look(self) -> None:
        self._looks += 1
        if self._looks > MOST_LOOKS:
            raise NotCountable
