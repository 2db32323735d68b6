"""Rewrites trees into one plain shape with the same language, so that later stages meet few cases.

Afterwards: no nested sequences or choices, no empty parts, no impossible options, one character is always a class,
options that are one character each are one class, and counts of counts are one count where that is exact. A rule that
repeats itself only through its own first or last place becomes a repetition (Arden's rule): right recursion would
cost time at each token, and a repetition can be part of a terminal.
"""

from collections.abc import Iterable

from agent.constraint.languages.code_points import code_points, complement, is_surrogate, letters
from agent.constraint.tree import (
    EMPTY,
    NOTHING,
    CharacterClass,
    Choice,
    FreeText,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Text,
    children,
    references,
)

MAX_COUNT = 2**31 - 1
"""llguidance counts repetitions in 32 bits."""


def one_character(code_point: int) -> CharacterClass:
    """The class of one code point."""
    return CharacterClass(((code_point, code_point),))


def sequence(parts: Iterable[Node]) -> Node:
    """One after another, in plain shape; the parts are in plain shape already."""
    flat: list[Node] = []
    for part in parts:
        if part == NOTHING:
            return NOTHING
        flat.extend(part.parts if isinstance(part, Sequence) else (part,))
    joined: list[Node] = []
    for part in flat:
        text = _as_text(part)
        if text is not None and joined and (before := _as_text(joined[-1])) is not None:
            joined[-1] = Text(before + text)
        else:
            joined.append(part)
    return joined[0] if len(joined) == 1 else Sequence(tuple(joined))


def _as_text(node: Node) -> str | None:
    if isinstance(node, Text):
        return node.text
    if isinstance(node, CharacterClass) and len(node.ranges) == 1 and node.ranges[0][0] == node.ranges[0][1]:
        return chr(node.ranges[0][0])
    return None


def choice(options: Iterable[Node]) -> Node:
    """Any one of the options, in plain shape; the options are in plain shape already."""
    others: dict[Node, None] = {}
    ranges: list[tuple[int, int]] = []
    may_be_empty = False
    pending = list(options)[::-1]
    while pending:
        option = pending.pop()
        if isinstance(option, Choice):
            pending.extend(reversed(option.options))
        elif isinstance(option, Repeat) and (option.least, option.most) == (0, 1):
            may_be_empty = True
            pending.append(option.body)
        elif isinstance(option, CharacterClass):
            ranges.extend(option.ranges)
        elif option == EMPTY:
            may_be_empty = True
        else:
            others[option] = None
    kept: list[Node] = [CharacterClass(code_points(ranges)), *others] if ranges else [*others]
    node: Node = kept[0] if len(kept) == 1 else Choice(tuple(kept))
    if not may_be_empty:
        return node
    return repeat(node, 0, 1) if kept else EMPTY


def repeat(body: Node, least: int, most: int | None) -> Node:
    """The body `least` to `most` times, in plain shape; the body is in plain shape already."""
    if body == NOTHING:
        return EMPTY if least == 0 else NOTHING
    if most == 0 or body == EMPTY:
        return EMPTY
    if (least, most) == (1, 1):
        return body
    if isinstance(body, Repeat):
        combined = _product_of_counts((body.least, body.most), (least, most))
        if combined is not None:
            return repeat(body.body, *combined)
    return Repeat(body, least, most)


def _product_of_counts(inner: tuple[int, int | None], outer: tuple[int, int | None]) -> tuple[int, int | None] | None:
    """The counts of `(x{a,b}){c,d}` as counts of x: the union of [k·a, k·b], k from c to d. None when it has gaps."""
    (a, b), (c, d) = inner, outer
    most = None if b is None or d is None else b * d
    if max(c * a, most or 0) > MAX_COUNT:
        return None
    if a == 0 or b is None:
        # k·0 up to k·b, growing with k: no gap. With b open, from c·a on (k = 0 is the empty string).
        if a > 1 and c == 0:
            return None
        return c * a, most
    first_joined = c if c > 0 else 1
    if c == 0 and a > 1:
        return None
    if d is not None and d == c:
        return c * a, most
    # Neighbours k and k + 1 meet when (k + 1)·a <= k·b + 1; the smallest k decides.
    return (c * a, most) if (first_joined + 1) * a <= first_joined * b + 1 else None


def normalised(node: Node) -> Node:
    """The same language in plain shape."""
    match node:
        case Text(text):
            if any(is_surrogate(ord(character)) for character in text):
                return NOTHING
            if not text:
                return EMPTY
            return one_character(ord(text)) if len(text) == 1 else Text(text)
        case CharacterClass(ranges):
            merged = code_points(ranges)
            return CharacterClass(merged) if merged else NOTHING
        case Sequence(parts):
            return sequence(map(normalised, parts))
        case Choice(options):
            return choice(map(normalised, options))
        case Repeat(body, least, most):
            return repeat(normalised(body), least, most)
        case Shortest(body):
            inner = normalised(body)
            return inner if inner in (EMPTY, NOTHING) else Shortest(inner)
        case FreeText():
            return _free_text(node)
        case Reference(name):
            return Reference(name)
        case _:
            return node


def _free_text(node: FreeText) -> Node:
    avoid = tuple(dict.fromkeys(node.avoid))
    if "" in avoid or (node.until is not None and any(text in node.until for text in avoid)):
        return NOTHING
    if node.until == "":
        return EMPTY
    if any(len(text) > 1 for text in (*avoid, *(() if node.until is None else (node.until,)))):
        return FreeText(avoid, node.until)
    # Single characters only: that is a class, and a class can be joined with what stands beside it.
    allowed = CharacterClass(complement(letters("".join(avoid) + (node.until or ""))))
    text = repeat(allowed if allowed.ranges else NOTHING, 0, None)
    return text if node.until is None else sequence([text, one_character(ord(node.until))])


def without_own_recursion(name: str, node: Node) -> Node:
    """The body `node` of the rule `name`, without any mention of itself where Arden's rule removes all."""
    before: list[Node] = []
    after: list[Node] = []
    base: list[Node] = []
    for option in node.options if isinstance(node, Choice) else (node,):
        tail = _split(name, option, at_end=True)
        if tail is not None:
            before.append(tail[0])
            base.append(tail[1])
            continue
        head = _split(name, option, at_end=False)
        if head is None:
            return node
        after.append(head[0])
        base.append(head[1])
    left, right = choice(before), choice(after)
    return sequence([repeat(left, 0, None), choice(base), repeat(right, 0, None)])


def _split(name: str, node: Node, *, at_end: bool) -> tuple[Node, Node] | None:
    """(a, b) such that node = a·name | b (at_end) or name·a | b, neither with `name` in it; None: there is none."""
    if not mentions(node, name):
        return NOTHING, node
    match node:
        case Reference():
            return EMPTY, NOTHING
        case Choice(options):
            splits = [_split(name, option, at_end=at_end) for option in options]
            found = [split for split in splits if split is not None]
            if len(found) < len(splits):
                return None
            return choice([split[0] for split in found]), choice([split[1] for split in found])
        case Repeat(body, 0, 1):
            inner = _split(name, body, at_end=at_end)
            return None if inner is None else (inner[0], choice([inner[1], EMPTY]))
        case Sequence(parts):
            others, last = (parts[:-1], parts[-1]) if at_end else (parts[1:], parts[0])
            inner = None if any(mentions(part, name) for part in others) else _split(name, last, at_end=at_end)
            if inner is None:
                return None
            if at_end:
                return sequence([*others, inner[0]]), sequence([*others, inner[1]])
            return sequence([inner[0], *others]), sequence([inner[1], *others])
        case _:
            return None


def mentions(node: Node, name: str) -> bool:
    """Whether the rule is referred to anywhere in the node."""
    return any(found == name for found in references(node))


def size(node: Node) -> int:
    """How many nodes it is, itself included."""
    nodes, stack = 0, [node]
    while stack:
        nodes += 1
        stack.extend(children(stack.pop()))
    return nodes
