"""The order in which rules depend on each other, and which of them are part of a circle."""

from collections.abc import Iterator, Mapping

from agent.constraint.normal_form import mentions, references, without_own_recursion
from agent.constraint.tree import Node


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
        for name in group:
            body = rules[name]
            if len(group) == 1 and mentions(body, name):
                body = without_own_recursion(name, body)
            ordered[name] = body
            if len(group) > 1 or mentions(body, name):
                circular.add(name)
    return ordered, frozenset(circular)
