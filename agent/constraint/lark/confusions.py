"""Which terminals a text can belong to at the same time: one walk over the automata of all of them.

A state of the walk is the set of terminals that a text may still be part of, each with its own state. Where one of them
accepts, the others are confused with it: they match the same text too (`alike`), or go on after it (`harm`).
What was found of a pair stays true while others come and go, so later walks look only at sets with a new terminal.
"""

from collections.abc import Mapping

from agent.constraint.lark.alphabet import bits
from agent.constraint.lark.automaton import Automaton, TooManyStates, disjoint
from agent.constraint.lark.regular import RegularTrees
from agent.constraint.tree import CharacterClass, Node

MOST_WALKED = 60_000
"""(terminal, state) pairs in all sets together, counted more often where many accept; beyond, each pair of terminals is
walked by itself."""
MOST_WALKED_IN_PAIRS = 60_000
"""(state, state) pairs in all; beyond, terminals that begin alike are taken to be confused in every way."""
MOST_LEAVES_IN_PAIRS = 200

Place = tuple[tuple[int, int], ...]
"""(leaf, state) pairs, sorted."""


class Confusions:
    """Grows: leaves are added, none is forgotten. Leaves are numbers; masks are of the alphabet of `trees`."""

    def __init__(self, trees: RegularTrees) -> None:
        self._trees = trees
        self._automata: dict[int, Automaton] = {}
        self._nodes: dict[int, Node] = {}
        self._harm: dict[tuple[int, int], int] = {}
        self._walked = 0
        self._walked_in_pairs = 0
        self.firsts: dict[int, int] = {}
        """The characters that a leaf can begin with."""
        self.alike: dict[int, int] = {}
        """The leaves that have a match in common with a leaf, itself included."""
        self.rivals: dict[int, int] = {}
        """The leaves that may go on after a match of a leaf."""

    def harm(self, leaf: int, rival: int) -> int:
        """The characters on which the rival may go on after a whole match of the leaf."""
        return self._harm.get((leaf, rival), 0)

    def add_opaque(self, leaf: int, first: int) -> None:
        """One whose automaton nobody knows."""
        self.firsts[leaf] = first
        self.alike[leaf] = 1 << leaf
        self.rivals[leaf] = 0

    def add_pair(self, leaf: int, rival: int, harm: int) -> None:
        """They have a match in common, and after a match of the leaf the rival may go on with these characters."""
        self.alike[leaf] |= 1 << rival
        self.alike[rival] |= 1 << leaf
        self._add_harm(leaf, rival, harm)

    def learn(self, terminals: Mapping[str, Node]) -> None:
        """Adds those that are new, and everything about them and those that were there before and still are."""
        new = [int(name) for name in terminals if int(name) not in self.firsts]
        for leaf in new:
            self._nodes[leaf] = terminals[str(leaf)]
            automaton = self._trees.approximate(self._nodes[leaf])
            self._automata[leaf] = automaton
            self.add_opaque(leaf, automaton.live(0))
        present = [int(name) for name in terminals]
        try:
            self._walk(present, frozenset(new))
        except TooManyStates:
            self._walk_pairs(present, frozenset(new))

    def take_as_alike(self, terminals: Mapping[str, Node]) -> None:
        """Of single characters: those that share one have a match in common, and none goes on."""
        holders: dict[int, int] = {}
        for name, node in terminals.items():
            self.add_opaque(int(name), self._trees.summary(node).mask)
            for minterm in bits(self.firsts[int(name)]):
                holders[minterm] = holders.get(minterm, 0) | (1 << int(name))
        for name in terminals:
            for minterm in bits(self.firsts[int(name)]):
                self.alike[int(name)] |= holders[minterm]

    def _add_harm(self, leaf: int, rival: int, harm: int) -> None:
        if harm:
            self._harm[leaf, rival] = self._harm.get((leaf, rival), 0) | harm
            self.rivals[leaf] |= 1 << rival

    # All at once

    def _walk(self, present: list[int], new: frozenset[int]) -> None:
        """Raises TooManyStates over the budget; what was found until then is true."""
        start: Place = tuple((leaf, 0) for leaf in sorted(present))
        seen: set[Place] = set()  # without the start, unless a text leads back to it
        pending = [start]
        while pending:
            for place in self._steps(pending.pop()):
                if place in seen or not any(leaf in new for leaf, _ in place):
                    continue
                seen.add(place)
                self._walked += len(place) * (1 + self._note(place))
                if self._walked > MOST_WALKED:
                    raise TooManyStates
                pending.append(place)

    def _steps(self, place: Place) -> list[Place]:
        """Where one character leads."""
        targets: list[tuple[int, int]] = []
        by_mask: dict[int, int] = {}
        for leaf, state in place:
            for mask, target in self._automata[leaf].transitions(state):
                by_mask[mask] = by_mask.get(mask, 0) | (1 << len(targets))
                targets.append((leaf, target))
        return [tuple(targets[number] for number in bits(group)) for _, group in disjoint(list(by_mask.items()))]

    def _note(self, place: Place) -> int:
        """Learns from one set of leaves; answers how many of them accept."""
        accepting = [leaf for leaf, state in place if self._automata[leaf].accepting[state]]
        alike = 0
        for leaf in accepting:
            alike |= 1 << leaf
        for leaf in accepting:
            self.alike[leaf] |= alike
        for rival, state in place:
            live = self._automata[rival].live(state)
            if live:
                for leaf in accepting:
                    self._add_harm(leaf, rival, live)
        return len(accepting)

    # One pair after another

    def _walk_pairs(self, present: list[int], new: frozenset[int]) -> None:
        """Raises TooManyStates when there are too many leaves for it."""
        if len(present) > MOST_LEAVES_IN_PAIRS:
            raise TooManyStates
        for number, one in enumerate(present):
            for two in present[number:]:
                if (one in new or two in new) and self.firsts[one] & self.firsts[two]:
                    try:
                        self._walk_pair(one, two)
                    except TooManyStates:
                        self._confuse(one, two)

    def _confuse(self, one: int, two: int) -> None:
        for leaf, rival in ((one, two), (two, one)):
            goes_on = not isinstance(self._nodes[rival], CharacterClass)
            self.add_pair(leaf, rival, self._trees.summary(self._nodes[rival]).mask if goes_on else 0)

    def _walk_pair(self, one: int, two: int) -> None:
        left, right = self._automata[one], self._automata[two]
        seen: set[tuple[int, int]] = set()
        pending = [(0, 0)]
        while pending:
            left_state, right_state = pending.pop()
            for left_mask, left_target in left.transitions(left_state):
                for right_mask, right_target in right.transitions(right_state):
                    pair = (left_target, right_target)
                    if not left_mask & right_mask or pair in seen:
                        continue
                    seen.add(pair)
                    pending.append(pair)
                    self._note(((one, left_target), (two, right_target)))
            self._walked_in_pairs += 1
            if self._walked_in_pairs > MOST_WALKED_IN_PAIRS:
                raise TooManyStates
