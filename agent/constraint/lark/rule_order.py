"""The order in which rules depend on each other, and which of them are part of a circle."""

from collections.abc import Iterator, Mapping

from agent.constraint.lark.normal_form import mentions, normalised, size, without_own_recursion
from agent.constraint.tree import (
    Choice,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    references,
)

MOST_RULES_IN_A_CIRCLE = 8
MOST_NODES_IN_A_CIRCLE = 500
"""A larger circle is left to the parser."""


def leaves_first(rules: Mapping[str, Node]) -> Iterator[tuple[str, ...]]:
    """Groups of rules that refer to each other in circles (Tarjan's algorithm), each after those it refers to."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_names: list[str] = []
    is_open: set[str] = set()
    for start in rules:
        if start in numbers:
            continue
        path = [(start, iter(dict.fromkeys(references(rules[start]))))]
        numbers[start] = lowest[start] = len(numbers)
        open_names.append(start)
        is_open.add(start)
        while path:
            name, following = path[-1]
            used = next(following, None)
            if used is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[name])
                if lowest[name] == numbers[name]:
                    yield _closed(name, open_names, is_open)
            elif used not in numbers:
                numbers[used] = lowest[used] = len(numbers)
                open_names.append(used)
                is_open.add(used)
                path.append((used, iter(dict.fromkeys(references(rules[used])))))
            elif used in is_open:
                lowest[name] = min(lowest[name], numbers[used])


def _closed(name: str, open_names: list[str], is_open: set[str]) -> tuple[str, ...]:
    """Takes the group that `name` began off the end."""
    group: list[str] = []
    while not group or group[-1] != name:
        group.append(open_names.pop())
    is_open.difference_update(group)
    return tuple(reversed(group))


def without_simple_recursion(rules: Mapping[str, Node]) -> tuple[dict[str, Node], frozenset[str]]:
    """The rules, leaves first, with repetitions for plain left and right recursion; and those still in a circle."""
    ordered: dict[str, Node] = {}
    circular: set[str] = set()
    for group in leaves_first(rules):
        bodies = {name: rules[name] for name in group}
        solved = bodies if len(group) == 1 and not mentions(rules[group[0]], group[0]) else _solved(bodies)
        if solved is None:
            circular.update(group)
        ordered.update(bodies if solved is None else solved)
    return ordered, frozenset(circular)


def _solved(bodies: Mapping[str, Node]) -> dict[str, Node] | None:
    """The rules of one circle, leaves first and without the circle; None where only rules can say it.

    As with equations: each rule in turn is freed of itself and put into those that are left.
    """
    if len(bodies) > MOST_RULES_IN_A_CIRCLE:
        return None
    left = dict(bodies)
    solved: dict[str, Node] = {}
    for name in bodies:
        body = without_own_recursion(name, left.pop(name))
        if mentions(body, name):
            return None
        solved[name] = body
        left = {other: normalised(_with(other_body, name, body)) for other, other_body in left.items()}
        if sum(map(size, left.values())) > MOST_NODES_IN_A_CIRCLE:
            return None
    return dict(reversed(solved.items()))


def _with(node: Node, name: str, body: Node) -> Node:
    """With the body in the place of references to the rule."""
    match node:
        case Reference(found):
            return body if found == name else node
        case Sequence(parts):
            return Sequence(tuple(_with(part, name, body) for part in parts))
        case Choice(options):
            return Choice(tuple(_with(option, name, body) for option in options))
        case Repeat(inner, least, most):
            return Repeat(_with(inner, name, body), least, most)
        case Shortest(inner):
            return Shortest(_with(inner, name, body))
        case _:
            return node
