"""Regular trees: which characters they speak of, whether they match nothing written, and their automata.

`approximate` automata accept at least what the tree does and stay small whatever the tree: long counted repetitions
become endless ones, and what is too large becomes "any of its characters, any number of times". That is enough to prove
something harmless, and never enough to define a language.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.constraint.lark.alphabet import Alphabet
from agent.constraint.lark.automaton import EMPTY_FRAGMENT, Automaton, Fragment, Positions, TooManyStates, Transitions
from agent.constraint.lark.free_text import free_text_automaton
from agent.constraint.tree import (
    CharacterClass,
    Choice,
    FreeText,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    SubstringOf,
    Text,
    children,
)

MOST_POSITIONS = 1_000
MOST_STATES = 4_000
MOST_REPEATED_POSITIONS = 64
"""A counted repetition of more than this is approximated by an endless one."""
MOST_REFERENCES_DEEP = 40


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of a regular node at once: its characters, and whether it matches the empty string."""

    mask: int
    nullable: bool


class RegularTrees:
    """Questions about regular nodes. References lead to `rules`, which are regular too and lead in no circle."""

    def __init__(self, rules: Mapping[str, Node], alphabet: Alphabet) -> None:
        """`rules` come in an order in which each refers to earlier ones only."""
        self._rules = rules
        self._alphabet = alphabet
        self._summaries: dict[str, Summary] = {}
        for name, node in rules.items():
            self._summaries[name] = self.summary(node)

    def summary(self, node: Node) -> Summary:
        """Of the whole node."""
        match node:
            case CharacterClass(ranges):
                return Summary(self._alphabet.mask(ranges), False)
            case Text(text):
                return Summary(self._mask_of(text), not text)
            case FreeText(_, until):
                return Summary(self._alphabet.every_character, not until)
            case SubstringOf(chunks):
                return Summary(self._mask_of("".join(chunks)), True)
            case Reference(name):
                return self._summaries[name]
            case _:
                inner = tuple(map(self.summary, children(node)))
        mask = 0
        for some in inner:
            mask |= some.mask
        match node:
            case Choice():
                return Summary(mask, any(some.nullable for some in inner))
            case Repeat(_, least):
                return Summary(mask, least == 0 or inner[0].nullable)
            case _:
                return Summary(mask, all(some.nullable for some in inner))

    def approximate(self, node: Node) -> Automaton:
        """One that accepts what the node matches, and perhaps more."""
        positions = Positions()
        try:
            whole = _Building(self, positions, True).fragment(node)
            return Automaton(positions, whole, MOST_STATES)
        except TooManyStates:
            return self.rough(node)

    def rough(self, node: Node) -> Automaton:
        """One that accepts any characters that the node speaks of."""
        positions = Positions()
        return Automaton(positions, positions.any_of(self.summary(node).mask), MOST_STATES)

    def exact(self, node: Node) -> Automaton:
        """Raises TooManyStates, now or when states are made."""
        positions = Positions()
        whole = _Building(self, positions, False).fragment(node)
        return Automaton(positions, whole, MOST_STATES)

    def shortest(self, node: Shortest) -> Automaton:
        """Exact. Raises TooManyStates."""
        automaton = self.exact(node.body)
        automaton.expand()
        table: list[Transitions] = [
            [] if ends else row for ends, row in zip(automaton.accepting, automaton.table, strict=True)
        ]
        return Automaton.of_table(table, automaton.accepting)

    def free_text(self, node: FreeText) -> Automaton:
        """Exact. Raises TooManyStates."""
        return free_text_automaton(node, self._alphabet)

    def masks_of(self, text: str) -> list[int]:
        """The minterm of each character."""
        return [self._alphabet.mask_of_character(letter) for letter in text]

    def _mask_of(self, text: str) -> int:
        mask = 0
        for letter in set(text):
            mask |= self._alphabet.mask_of_character(letter)
        return mask

    def body(self, name: str) -> Node:
        """The rule of that name."""
        return self._rules[name]


class _Building:
    """One automaton in the making."""

    def __init__(self, trees: RegularTrees, positions: Positions, approximate: bool) -> None:
        self._trees = trees
        self._positions = positions
        self._approximate = approximate
        self._references_deep = 0

    def fragment(self, node: Node) -> Fragment:
        if len(self._positions.masks) > MOST_POSITIONS:
            raise TooManyStates
        match node:
            case CharacterClass():
                return self._positions.one(self._trees.summary(node).mask)
            case Text(text):
                return self._chain(node, text)
            case Sequence(parts):
                whole = EMPTY_FRAGMENT
                for part in parts:
                    whole = self._positions.join(whole, self.fragment(part))
                return whole
            case Choice(options):
                return _either([self.fragment(option) for option in options])
            case Repeat():
                return self._repeat(node)
            case Reference(name):
                return self._reference(node, name)
            case SubstringOf(chunks):
                return self._substring(node, [chunk for chunk in chunks if chunk])
            case FreeText() | Shortest():
                return self._embedded(node)
            case _:
                raise ValueError(f"{type(node).__name__} is not regular")

    def _rough(self, node: Node) -> Fragment:
        """Any number of the node's characters, at least one unless it matches the empty string."""
        if not self._approximate:
            raise TooManyStates
        summary = self._trees.summary(node)
        loop = self._positions.any_of(summary.mask)
        return Fragment(summary.nullable, loop.first, loop.last)

    def _chain(self, node: Node, text: str) -> Fragment:
        if not text:
            return EMPTY_FRAGMENT
        if len(text) > MOST_POSITIONS:
            return self._rough(node)
        return self._positions.chain(self._trees.masks_of(text))

    def _reference(self, node: Node, name: str) -> Fragment:
        if self._references_deep >= MOST_REFERENCES_DEEP:
            return self._rough(node)
        self._references_deep += 1
        fragment = self.fragment(self._trees.body(name))
        self._references_deep -= 1
        return fragment

    def _repeat(self, node: Repeat) -> Fragment:
        least, most = node.least, node.most
        start = len(self._positions.masks)
        first = self.fragment(node.body)
        size = max(1, len(self._positions.masks) - start)
        copies = least if most is None else most
        if copies * size > (MOST_REPEATED_POSITIONS if self._approximate else MOST_POSITIONS) and copies > 1:
            if not self._approximate:
                raise TooManyStates
            looped = self._positions.loop(first)
            return Fragment(least == 0 or first.nullable, looped.first, looped.last)
        if most is None:
            return self._at_least(node.body, first, least)
        # x{1,3} is x(x(x)?)?, built from the inside.
        whole = EMPTY_FRAGMENT
        for place in range(most, 0, -1):
            copy = first if place == most else self.fragment(node.body)
            whole = self._positions.join(copy, whole)
            if place > least:
                whole = Fragment(True, whole.first, whole.last)
        return whole

    def _at_least(self, body: Node, last: Fragment, least: int) -> Fragment:
        looped = self._positions.loop(last)
        whole = Fragment(least == 0 or last.nullable, looped.first, looped.last)
        for _ in range(least - 1):
            whole = self._positions.join(self.fragment(body), whole)
        return whole

    def _substring(self, node: Node, chunks: list[str]) -> Fragment:
        if sum(map(len, chunks)) > MOST_POSITIONS:
            return self._rough(node)
        whole = EMPTY_FRAGMENT
        before: Fragment | None = None
        for chunk in chunks:
            piece = self._positions.chain(self._trees.masks_of(chunk))
            if before is not None:
                self._positions.join(before, piece)
            whole = Fragment(True, whole.first | piece.first, whole.last | piece.last)
            before = piece
        return whole

    def _embedded(self, node: FreeText | Shortest) -> Fragment:
        try:
            exact = self._trees.free_text(node) if isinstance(node, FreeText) else self._trees.shortest(node)
            return self._positions.embed(exact)
        except TooManyStates:
            return self._rough(node)


def _either(options: list[Fragment]) -> Fragment:
    nullable, first, last = False, 0, 0
    for option in options:
        nullable |= option.nullable
        first |= option.first
        last |= option.last
    return Fragment(nullable, first, last)
