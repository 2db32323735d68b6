"""How long the texts of a rule can be, and the part of a rule's language that is at most so many characters long."""

from collections.abc import Mapping
from dataclasses import replace

from agent.constraint.tree import NOTHING, CharacterClass, Choice, Node, Reference, Repeat, Sequence, Text

_MOST_LOOKS = 2_000
"""Nodes that one question may look at, references followed: a hostile grammar must not make it expensive."""


def at_most(node: Node, length: int, rules: Mapping[str, Node]) -> Node | None:
    """The node, restricted to texts of at most `length` characters; None: that cannot be told from its shape."""
    return _Lengths(rules).restrict(node, length)


class _Lengths:
    def __init__(self, rules: Mapping[str, Node]) -> None:
        self._rules = rules
        self._looks = 0

    def restrict(self, node: Node, length: int) -> Node | None:
        bounds = self._bounds(node, ())
        if bounds is None:
            return None
        least, most = bounds
        if least > length:
            return NOTHING
        if most is not None and most <= length:
            return node
        match node:
            case Choice(options):
                limited = [self.restrict(option, length) for option in options]
                known = tuple(option for option in limited if option is not None)
                return replace(node, options=known) if len(known) == len(options) else None
            case Repeat(body):
                inner = self._bounds(body, ())
                if inner is None or inner[0] != inner[1] or not inner[0]:
                    return None
                return replace(node, most=length // inner[0])
            case Sequence(parts):
                return self._restrict_sequence(node, parts, length)
            case Reference(name):
                return self.restrict(self._rules[name], length)
            case _:
                return None

    def _restrict_sequence(self, node: Sequence, parts: tuple[Node, ...], length: int) -> Node | None:
        """All parts but one have a fixed length: what they leave is that one's."""
        bounds = [self._bounds(part, ()) for part in parts]
        open_parts = [index for index, pair in enumerate(bounds) if pair is not None and pair[0] != pair[1]]
        if len(open_parts) != 1:
            return None
        index = open_parts[0]
        taken = sum(pair[0] for place, pair in enumerate(bounds) if pair is not None and place != index)
        limited = self.restrict(parts[index], length - taken)
        return None if limited is None else replace(node, parts=(*parts[:index], limited, *parts[index + 1 :]))

    def _bounds(self, node: Node, inside: tuple[str, ...]) -> tuple[int, int | None] | None:
        """The least and the greatest length (None: endless); None: not known, as in recursion."""
        self._looks += 1
        if self._looks > _MOST_LOOKS:
            return None
        match node:
            case Text(text):
                return len(text), len(text)
            case CharacterClass():
                return 1, 1
            case Sequence(parts):
                return _summed([self._bounds(part, inside) for part in parts])
            case Choice(options) if options:
                return _widest([self._bounds(option, inside) for option in options])
            case Repeat(body, least, most):
                inner = self._bounds(body, inside)
                if inner is None:
                    return None
                longest = None if most is None or inner[1] is None else inner[1] * most
                return inner[0] * least, 0 if inner[1] == 0 else longest
            case Reference(name) if name not in inside:
                return self._bounds(self._rules[name], (*inside, name))
            case _:
                return None


_Pairs = list[tuple[int, int | None] | None]


def _summed(pairs: _Pairs) -> tuple[int, int | None] | None:
    least, most = 0, 0
    endless = False
    for pair in pairs:
        if pair is None:
            return None
        least += pair[0]
        endless = endless or pair[1] is None
        most += pair[1] or 0
    return least, None if endless else most


def _widest(pairs: _Pairs) -> tuple[int, int | None] | None:
    known = [pair for pair in pairs if pair is not None]
    if len(known) < len(pairs):
        return None
    ends = [most for _, most in known if most is not None]
    return min(least for least, _ in known), max(ends) if len(ends) == len(known) else None
