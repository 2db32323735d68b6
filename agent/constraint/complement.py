"""The complement of a regular language, as a tree again: bounded, since it may be exponentially larger."""

from agent.constraint.alphabet import Alphabet, classes_in
from agent.constraint.automaton import Automaton, TooManyStates, Transitions, useful_states
from agent.constraint.normal_form import choice, normalised, references, repeat, sequence
from agent.constraint.regular import RegularTrees
from agent.constraint.tree import EMPTY, NOTHING, CharacterClass, Node

MOST_STATES = 200
MOST_NODES = 5_000


def complement_of(node: Node, most_nodes: int = MOST_NODES, most_states: int = MOST_STATES) -> Node | None:
    """A tree that matches exactly the strings that `node` does not match; NOTHING where it matches all.

    None: the complement is too large (more than `most_nodes` nodes, or an automaton of more than `most_states` states).
    Raises ValueError when the node refers to rules, or speaks of tokens or JSON.
    """
    plain = normalised(node)
    if any(True for _ in references(plain)):
        raise ValueError("a node that refers to rules has no complement of its own")
    alphabet = Alphabet(classes_in(plain))
    if plain == NOTHING:
        return repeat(CharacterClass(alphabet.ranges(alphabet.every_character)), 0, None)
    try:
        flipped = _flipped(RegularTrees({}, alphabet).exact(plain), alphabet.every_character, most_states)
        return tree_of(_minimal(flipped), alphabet, most_nodes)
    except TooManyStates:
        return None


def _flipped(automaton: Automaton, every_character: int, most_states: int) -> Automaton:
    """Accepts where the automaton does not, and wherever it has no way on."""
    table: list[Transitions] = []
    while len(table) < len(automaton.accepting):
        if len(table) > most_states:
            raise TooManyStates
        table.append(list(automaton.transitions(len(table))))
    sink = len(table)
    for row in table:
        missing = every_character
        for mask, _ in row:
            missing &= ~mask
        if missing:
            row.append((missing, sink))
    table.append([(every_character, sink)])
    return Automaton.of_table(table, [*(not ends for ends in automaton.accepting), True])


def _minimal(automaton: Automaton) -> Automaton:
    """The smallest automaton of the same language (Moore's refinement). Every state has a way for every character."""
    groups = [int(ends) for ends in automaton.accepting]
    while True:
        numbers: dict[tuple[int, frozenset[tuple[int, int]]], int] = {}
        refined = []
        for state, row in enumerate(automaton.table):
            key = (groups[state], frozenset(_by_group(row, groups)))
            refined.append(numbers.setdefault(key, len(numbers)))
        if len(numbers) == len(set(groups)):
            break
        groups = refined
    # State 0 is first in `refined`, so its group is number 0.
    table: list[Transitions] = [[] for _ in numbers]
    accepting = [False] * len(numbers)
    for state, row in enumerate(automaton.table):
        table[refined[state]] = _by_group(row, refined)
        accepting[refined[state]] = automaton.accepting[state]
    return Automaton.of_table(table, accepting)


def _by_group(row: Transitions, groups: list[int]) -> Transitions:
    masks: dict[int, int] = {}
    for mask, target in row:
        masks[groups[target]] = masks.get(groups[target], 0) | mask
    return [(mask, group) for group, mask in masks.items()]


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
