"""An automaton as a regular tree again: bounded, since the tree may be far larger."""

from agent.constraint.lark.alphabet import Alphabet
from agent.constraint.lark.automaton import Automaton, TooManyStates, useful_states
from agent.constraint.lark.normal_form import choice, repeat, sequence
from agent.constraint.tree import EMPTY, NOTHING, CharacterClass, Node


def tree_of(automaton: Automaton, alphabet: Alphabet, most_nodes: int) -> Node:
    """The language of an automaton as a tree, by taking out one state after another. Raises TooManyStates."""
    states = useful_states(automaton)
    if not any(automaton.accepting[state] for state in states):
        return NOTHING
    ways = _Ways(most_nodes)
    ways.add(_BEFORE, 0, EMPTY, 1)
    for state in states:
        if automaton.accepting[state]:
            ways.add(state, _AFTER, EMPTY, 1)
        for mask, target in automaton.transitions(state):
            if target in states:
                ways.add(state, target, CharacterClass(alphabet.ranges(mask)), 1)
    remaining = set(states)
    while remaining:
        cheapest = min(remaining, key=lambda state: (ways.cost_without(state), state))
        ways.take_out(cheapest)
        remaining.remove(cheapest)
    return ways.between(_BEFORE, _AFTER)


_BEFORE, _AFTER = -1, -2


class _Ways:
    """From state to state, what is read on the way, and of how many nodes that consists."""

    def __init__(self, most_nodes: int) -> None:
        self._most_nodes = most_nodes
        self._into: dict[int, dict[int, tuple[Node, int]]] = {}
        self._from: dict[int, dict[int, tuple[Node, int]]] = {}

    def between(self, start: int, end: int) -> Node:
        found = self._from.get(start, {}).get(end)
        return NOTHING if found is None else found[0]

    def add(self, start: int, end: int, node: Node, size: int) -> None:
        known = self._from.setdefault(start, {}).get(end)
        if known is not None:
            node, size = choice([known[0], node]), known[1] + size + 1
        if size > self._most_nodes:
            raise TooManyStates
        self._from[start][end] = node, size
        self._into.setdefault(end, {})[start] = node, size

    def cost_without(self, state: int) -> int:
        """How many nodes it adds to go round the state."""
        into = [size for start, (_, size) in self._into.get(state, {}).items() if start != state]
        out = [size for end, (_, size) in self._from.get(state, {}).items() if end != state]
        loop = self._from.get(state, {}).get(state, (EMPTY, 0))[1]
        return sum(into) * (len(out) - 1) + sum(out) * (len(into) - 1) + loop * (len(into) * len(out) - 1)

    def take_out(self, state: int) -> None:
        into = self._into.pop(state, {})
        out = self._from.pop(state, {})
        loop, loop_size = into.pop(state, (EMPTY, 0))
        out.pop(state, None)
        for start in into:
            del self._from[start][state]
        for end in out:
            del self._into[end][state]
        again = repeat(loop, 0, None)
        for start, (before, before_size) in into.items():
            for end, (after, after_size) in out.items():
                self.add(start, end, sequence([before, again, after]), before_size + loop_size + after_size + 2)
