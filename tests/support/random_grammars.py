"""Grammars at random, small and nasty: few letters, much overlap, recursion of every kind. One seed, one grammar."""

from random import Random

from agent.constraint.tree import (
    CharacterClass,
    Choice,
    FreeText,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    SubstringOf,
    Text,
)

LETTERS = "abé😀"
_ANY = CharacterClass(((0, 0xD7FF), (0xE000, 0x10FFFF)))
_CLASSES = (
    CharacterClass(((97, 98),)),
    CharacterClass(((97, 97), (0xE9, 0xE9))),
    CharacterClass(((98, 0xD7FF), (0xE000, 0x10FFFF))),
    _ANY,
)
_COUNTS = ((0, None), (1, None), (0, 1), (2, 2), (0, 2), (1, 3), (2, None), (0, 0))


class RandomGrammars:
    """`plain`: only what every grammar language has, as GBNF can say it."""

    def __init__(self, random: Random, *, plain: bool) -> None:
        self._random = random
        self._plain = plain
        self._names: list[str] = []

    def grammar(self) -> Grammar:
        """One to four rules; some match nothing, some are in circles."""
        self._names = ["root", "s", "t", "u"][: self._random.randint(1, 4)]
        return Grammar({name: self._node(3) for name in self._names}, "root")

    def _node(self, depth: int) -> Node:
        if depth == 0 or self._random.random() < 0.15:
            return self._leaf()
        kind = self._random.random()
        if kind < 0.4:
            return Sequence(tuple(self._node(depth - 1) for _ in range(self._random.randint(1, 3))))
        if kind < 0.7:
            return Choice(tuple(self._node(depth - 1) for _ in range(self._random.randint(1, 3))))
        if kind < 0.9 or self._plain:
            return Repeat(self._node(depth - 1), *self._random.choice(_COUNTS))
        return self._special()

    def _leaf(self) -> Node:
        kind = self._random.random()
        if kind < 0.3:
            return Reference(self._random.choice(self._names))
        if kind < 0.6:
            return self._random.choice(_CLASSES)
        if kind < 0.65 and not self._plain:
            return Text("")
        return Text(self._text(3))

    def _text(self, most: int) -> str:
        return "".join(self._random.choices(LETTERS, k=self._random.randint(1, most)))

    def _special(self) -> Node:
        match self._random.randrange(3):
            case 0:
                avoid = tuple(self._text(2) for _ in range(self._random.randint(0, 2)))
                return FreeText(avoid, self._random.choice((None, self._text(3))))
            case 1:
                names, self._names = self._names, []
                body = self._regular(2)
                self._names = names
                return Shortest(body)
            case _:
                return SubstringOf(tuple(self._text(2) for _ in range(self._random.randint(1, 3))))

    def _regular(self, depth: int) -> Node:
        """Without references."""
        if depth == 0:
            return self._random.choice((*_CLASSES, Text(self._text(3))))
        match self._random.randrange(3):
            case 0:
                return Sequence((self._regular(depth - 1), self._regular(depth - 1)))
            case 1:
                return Choice((self._regular(depth - 1), self._regular(depth - 1)))
            case _:
                return Repeat(self._regular(depth - 1), *self._random.choice(_COUNTS))
