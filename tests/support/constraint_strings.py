"""Strings to try a grammar with: some from its language, some that just miss it. The same seed gives the same strings.

`strings_in` walks the grammar at random and, once a string is long enough, takes the shortest way out. `near_misses`
changes given strings a little; whether a result is in the language all the same, the recogniser says.
"""

from collections.abc import Iterator
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
from tests.support.constraint_recogniser import Recogniser

_ENDLESS = 10**9
_USUAL = 'ab0 \n"\\{}é😀'


def strings_in(grammar: Grammar, random: Random, count: int, length: int = 12) -> list[str]:
    """Up to `count` different strings of the language, about `length` characters long; few when it has few."""
    walk = _Walk(grammar, random)
    if walk.shortest_way(grammar.rules[grammar.root]) >= _ENDLESS:
        return []
    found: dict[str, None] = {}
    for _ in range(count * 3):
        if len(found) == count:
            break
        found.setdefault(walk.string(random.choice((0, length // 3, length))))
    return list(found)


def near_misses(strings: list[str], random: Random, count: int, alphabet: str = _USUAL) -> list[str]:
    """`count` strings one or two small changes away from the given ones (or from the empty one)."""
    letters = "".join(sorted({c for string in strings for c in string})) + alphabet
    missed = []
    for _ in range(count):
        string = random.choice(strings) if strings else ""
        for _ in range(random.choice((1, 1, 2))):
            string = _changed(string, letters, random)
        missed.append(string)
    return missed


def _changed(string: str, letters: str, random: Random) -> str:
    place = random.randint(0, len(string))
    letter = random.choice(letters)
    match random.randrange(6):
        case 0:
            return string[:place] + letter + string[place:]
        case 1:
            return string[:place] + string[place + 1 :]
        case 2:
            return string[:place] + letter + string[place + 1 :]
        case 3:
            return string[:place]
        case 4:
            return string[:place] + string[max(0, place - 2) :]
        case _:
            return string[:place] + string[place : place + 2][::-1] + string[place + 2 :]


class _Walk:
    def __init__(self, grammar: Grammar, random: Random) -> None:
        self._rules = grammar.rules
        self._root = grammar.root
        self._random = random
        self._depths = dict.fromkeys(grammar.rules, _ENDLESS)
        self._left = 0
        changed = True
        while changed:
            changed = False
            for name, body in grammar.rules.items():
                depth = min(self.shortest_way(body) + 1, _ENDLESS)
                changed |= depth < self._depths[name]
                self._depths[name] = min(depth, self._depths[name])

    def shortest_way(self, node: Node) -> int:
        """How much there is to write at least, references counted as one each; _ENDLESS: no string at all."""
        match node:
            case Text(text):
                return len(text)
            case CharacterClass(ranges):
                return 1 if ranges else _ENDLESS
            case Sequence(parts):
                return min(_ENDLESS, sum(self.shortest_way(part) for part in parts))
            case Choice(options):
                return min((self.shortest_way(option) for option in options), default=_ENDLESS)
            case Repeat(body, least, most):
                empty = most is not None and most < least
                return _ENDLESS if empty else min(_ENDLESS, least * self.shortest_way(body)) if least else 0
            case Reference(name):
                return self._depths[name]
            case Shortest(body):
                return self.shortest_way(body)
            case FreeText(_, until):
                return len(until or "")
            case SubstringOf():
                return 0
            case _:
                raise ValueError(f"no strings for {type(node).__name__}")

    def string(self, length: int) -> str:
        self._left = length
        return "".join(self._pieces(self._rules[self._root]))

    def _pieces(self, node: Node) -> Iterator[str]:
        match node:
            case Text(text):
                yield self._written(text)
            case CharacterClass(ranges):
                yield self._written(self._character(ranges))
            case Sequence(parts):
                for part in parts:
                    yield from self._pieces(part)
            case Choice(options):
                yield from self._pieces(self._option(options))
            case Repeat(body, least, most):
                for _ in range(self._times(body, least, most)):
                    yield from self._pieces(body)
            case Reference(name):
                self._left -= 1
                yield from self._pieces(self._rules[name])
            case Shortest(body):
                yield self._shortest_prefix(body)
            case FreeText(avoid, until):
                yield self._written(self._free_text(avoid, until))
            case SubstringOf(chunks):
                start = self._random.randint(0, len(chunks))
                yield self._written("".join(chunks[start : self._random.randint(start, len(chunks))]))
            case _:
                raise ValueError(f"no strings for {type(node).__name__}")

    def _written(self, text: str) -> str:
        self._left -= len(text)
        return text

    def _option(self, options: tuple[Node, ...]) -> Node:
        ways = [self.shortest_way(option) for option in options]
        if self._left <= 0:
            return options[ways.index(min(ways))]
        return self._random.choice([option for option, way in zip(options, ways, strict=True) if way < _ENDLESS])

    def _times(self, body: Node, least: int, most: int | None) -> int:
        if self._left <= 0 or self.shortest_way(body) >= _ENDLESS:
            return least
        room = least + self._random.choice((0, 1, 2, max(3, self._left)))
        return room if most is None else self._random.choice((least, min(room, most)))

    def _character(self, ranges: tuple[tuple[int, int], ...]) -> str:
        """Ends of ranges and the letters that people use, more often than the millions of others."""
        usual = [c for c in _USUAL if any(low <= ord(c) <= high for low, high in ranges)]
        low, high = self._random.choice(ranges)
        choices = [chr(low), chr(high), chr(self._random.randint(low, high))]
        return self._random.choice(choices + usual)

    def _free_text(self, avoid: tuple[str, ...], until: str | None) -> str:
        letters = _USUAL + "".join(avoid) + (until or "")
        for length in (*self._random.choices(range(max(1, self._left) + 1), k=20), 0):
            text = "".join(self._random.choices(letters, k=length)) + (until or "")
            if any(string in text for string in avoid):
                continue
            if until is None or text.find(until) == len(text) - len(until):
                return text
        return until or ""

    def _shortest_prefix(self, body: Node) -> str:
        text = "".join(self._pieces(body))
        judge = Recogniser(Grammar({**self._rules, "shortest ": body}, "shortest "))
        return next(text[:length] for length in range(len(text) + 1) if judge.accepts(text[:length]))
