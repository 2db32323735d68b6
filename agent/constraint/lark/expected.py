"""Which terminals the parser may expect at the same time, and which may come after each: what a lexer chooses among.

All sets are ints with a bit for each leaf (terminal or opaque symbol; their names are numbers). They hold at least what
can happen: contexts are forgotten, so what is proved for them holds for every text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent.constraint.lark.alphabet import bits
from agent.constraint.lark.pieces import Pieces
from agent.constraint.tree import (
    Choice,
    Node,
    Reference,
    Repeat,
    Sequence,
    references,
)


@dataclass(frozen=True, slots=True)
class Ends:
    """Of an expression: whether it can be empty, the leaves that it can begin with, and those it can end with."""

    nullable: bool
    first: int
    last: int


NEVER = Ends(False, 0, 0)
EMPTY_ENDS = Ends(True, 0, 0)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """`start` may begin a text; `after[n]` may come directly after leaf n."""

    start: int
    after: dict[int, int]


def neighbours(pieces: Pieces) -> Neighbours:
    """Of all leaves that the root reaches."""
    leaves = [int(name) for name in (*pieces.terminals, *pieces.opaque)]
    ends = {str(leaf): Ends(False, 1 << leaf, 1 << leaf) for leaf in leaves}
    _solve(pieces.rules, ends)
    after = dict.fromkeys(leaves, 0)
    meetings: dict[tuple[int, int], None] = {}
    for body in pieces.rules.values():
        meetings.update(dict.fromkeys(_meetings(body, ends)))
    for last, first in meetings:
        for leaf in bits(last) if first else ():
            after[leaf] |= first
    return Neighbours(ends[pieces.root].first, after)


def _solve(rules: Mapping[str, Node], ends: dict[str, Ends]) -> None:
    """The least fixpoint of all rules' ends."""
    users: dict[str, list[str]] = {name: [] for name in rules}
    for name, body in rules.items():
        for used in set(references(body)):
            if used in users:
                users[used].append(name)
        ends[name] = NEVER
    pending = dict.fromkeys(rules)
    while pending:
        name = pending.popitem()[0]
        found = _ends(rules[name], ends)
        if found != ends[name]:
            ends[name] = found
            pending.update(dict.fromkeys(users[name]))


def _ends(node: Node, ends: Mapping[str, Ends]) -> Ends:
    match node:
        case Reference(name):
            return ends[name]
        case Sequence(parts):
            whole = EMPTY_ENDS
            for part in parts:
                whole = _joined(whole, _ends(part, ends))
            return whole
        case Choice(options):
            nullable, first, last = False, 0, 0
            for option in options:
                found = _ends(option, ends)
                nullable, first, last = nullable or found.nullable, first | found.first, last | found.last
            return Ends(nullable, first, last)
        case Repeat(body, least):
            inner = _ends(body, ends)
            return Ends(inner.nullable or least == 0, inner.first, inner.last)
        case _:
            raise AssertionError(f"{type(node).__name__} is no expression")


def _joined(left: Ends, right: Ends) -> Ends:
    return Ends(
        left.nullable and right.nullable,
        left.first | right.first if left.nullable else left.first,
        left.last | right.last if right.nullable else right.last,
    )


def _meetings(node: Node, ends: Mapping[str, Ends]) -> Iterator[tuple[int, int]]:
    """(leaves that may end what is left of a border, leaves that may begin what is right of it), for each border."""
    match node:
        case Sequence(parts):
            whole = EMPTY_ENDS
            for part in parts:
                yield from _meetings(part, ends)
                found = _ends(part, ends)
                yield whole.last, found.first
                whole = _joined(whole, found)
        case Choice(options):
            for option in options:
                yield from _meetings(option, ends)
        case Repeat(body, _, most):
            yield from _meetings(body, ends)
            if most != 1:
                found = _ends(body, ends)
                yield found.last, found.first


MOST_JOINS = 200_000


def expected_together(found: Neighbours, alike: Mapping[int, int]) -> dict[int, int]:
    """For each leaf those (itself included) that may be expected where it is.

    Besides what may follow one leaf these are pairs that follow two leaves which the same text matches at the same
    place: `alike[n]` are the leaves that have a match in common with leaf n.
    """
    together = dict.fromkeys(found.after, 0)
    for expected in {found.start, *found.after.values()}:
        for leaf in bits(expected):
            together[leaf] |= expected
    asked = dict.fromkeys(found.after, 0)
    joins = 0
    pending = dict.fromkeys(found.after)
    while pending:
        leaf = pending.popitem()[0]
        new = together[leaf] & alike[leaf] & ~asked[leaf] & ~(1 << leaf)
        for other in bits(new):
            asked[leaf] |= 1 << other
            asked[other] |= 1 << leaf
            for one, two in ((leaf, other), (other, leaf)):
                for following in bits(found.after[one]):
                    joins += 1
                    if found.after[two] & ~together[following]:
                        together[following] |= found.after[two]
                        pending[following] = None
        if joins > MOST_JOINS:
            everything = sum(1 << leaf for leaf in found.after)
            return dict.fromkeys(found.after, everything)
    return together
