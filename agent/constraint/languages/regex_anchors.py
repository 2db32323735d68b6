"""Takes `^` and `$` out of a parsed regex: the tree describes whole texts, where they mean something only at the ends.

While a regex is parsed its anchors are references to the names START and END: a regex has no rules.
"""

from typing import Literal

from agent.constraint.errors import GrammarError
from agent.constraint.tree import (
    EMPTY,
    NOTHING,
    Choice,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    nullable,
)

START: Literal["^"] = "^"
END: Literal["$"] = "$"

_INSIDE = "is supported only at the {} of the pattern; remove it or move it there"


def resolve_anchors(node: Node, outside: Node) -> Node:
    """`outside`: what may stand before and after where no anchor says otherwise; EMPTY: nothing may.

    Each alternative has its own ends: `^a|b$` is a and anything, or anything and b. Raises GrammarError for an anchor
    that has something before `^` or after `$`.
    """
    for name in (START, END):
        node = _resolve(node, name, outside)
    for name in (START, END):
        left_over = _first(node, name)
        if left_over is not None:
            raise _misplaced(left_over)
    return node


def _resolve(node: Node, name: str, outside: Node) -> Node:
    """The node with its anchors of that name gone, and `outside` put in wherever it has none at that end."""
    if _first(node, name) is None:
        return _joined(outside, node, name)
    match node:
        case Sequence(parts):
            at_end = parts[0] if name == START else parts[-1]
            rest = parts[1:] if name == START else parts[:-1]
            if isinstance(at_end, Reference) and at_end.name == name:
                return _resolve(Sequence(rest), name, EMPTY)
            anchor = _first(Sequence(rest), name)
            if anchor is not None:
                raise _misplaced(anchor)
            return _joined(_resolve(at_end, name, outside), Sequence(rest), name)
        case Choice(options, position):
            return Choice(tuple(_resolve(option, name, outside) for option in options), position)
        case Repeat(body, least, 1):
            inner = _resolve(body, name, outside)
            return inner if least else Choice((inner, outside), node.position)
        case Repeat():
            return _resolve_in_passes(node, name, outside)
        case _:
            return EMPTY


def _resolve_in_passes(node: Repeat, name: str, outside: Node) -> Node:
    """Each pass takes a character, so an anchor can hold in the outermost one only: `(a(,|$))+` is `(a,)*a(,|$)`."""
    if node.most == 0:
        return outside
    if nullable(node.body, {START, END}):
        anchor = _first(node, name)
        assert anchor is not None
        raise _misplaced(anchor)
    outermost = _resolve(node.body, name, outside)
    others = Repeat(_without(node.body, name), max(0, node.least - 1), node.most and node.most - 1, node.position)
    passes = _joined(outermost, others, name)
    return passes if node.least else Choice((passes, outside), node.position)


def _without(node: Node, name: str) -> Node:
    """The node where the anchors of that name cannot hold."""
    match node:
        case Reference() if node.name == name:
            return NOTHING
        case Sequence(parts, position):
            return Sequence(tuple(_without(part, name) for part in parts), position)
        case Choice(options, position):
            return Choice(tuple(_without(option, name) for option in options), position)
        case Repeat(body, least, most, position):
            return Repeat(_without(body, name), least, most, position)
        case _:
            return node


def _joined(first: Node, second: Node, name: str) -> Node:
    """One after the other; for END the other way round."""
    pair = (first, second) if name == START else (second, first)
    parts = [part for node in pair for part in (node.parts if isinstance(node, Sequence) else (node,))]
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts), second.position)


def _first(node: Node, name: str) -> Reference | None:
    pending = [node]
    while pending:
        match pending.pop():
            case Reference() as reference if reference.name == name:
                return reference
            case Sequence(parts):
                pending += reversed(parts)
            case Choice(options):
                pending += reversed(options)
            case Repeat(body) | Shortest(body):
                pending.append(body)
            case _:
                pass
    return None


def _misplaced(anchor: Reference) -> GrammarError:
    end = "beginning" if anchor.name == START else "end"
    return GrammarError(f"the anchor {anchor.name!r} {_INSIDE.format(end)}", anchor.position)
