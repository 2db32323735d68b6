"""Finite automata over the minterms of an alphabet: positions first, states made when somebody comes by.

A `Positions` automaton (Glushkov's) has one position for each character class that is written in a regular tree: no
empty moves, no blow-up. Its `Automaton` is the deterministic form, made lazily: a state is the set of positions that
may come next, an int with one bit for each.
"""

from collections.abc import Sequence as Row
from dataclasses import dataclass, field

from agent.constraint.lark.alphabet import bits

Transitions = list[tuple[int, int]]
"""(mask of minterms, number of the next state), the masks disjoint. What is in no mask goes nowhere."""


class TooManyStates(Exception):
    """An automaton would be larger than its budget."""


@dataclass(slots=True)
class Fragment:
    """A part of a `Positions` automaton: whether it matches the empty string, and where it begins and ends."""

    nullable: bool
    first: int
    last: int


@dataclass(slots=True)
class Positions:
    """`masks[p]` are the characters that lead to position p, `follow[p]` (bits) the positions that come after it."""

    masks: list[int] = field(default_factory=list)
    follow: list[int] = field(default_factory=list)

    def one(self, mask: int) -> Fragment:
        """One character."""
        place = 1 << len(self.masks)
        self.masks.append(mask)
        self.follow.append(0)
        return Fragment(False, place, place)

    def any_of(self, mask: int) -> Fragment:
        """Any number of characters of the mask, none included."""
        if not mask:
            return EMPTY_FRAGMENT
        fragment = self.one(mask)
        self.follow[-1] = fragment.first
        return Fragment(True, fragment.first, fragment.last)

    def chain(self, masks: Row[int]) -> Fragment:
        """Exactly these characters, at least one, one after another."""
        start = len(self.masks)
        self.masks.extend(masks)
        self.follow.extend(1 << place for place in range(start + 1, start + len(masks)))
        self.follow.append(0)
        return Fragment(False, 1 << start, 1 << (start + len(masks) - 1))

    def join(self, left: Fragment, right: Fragment) -> Fragment:
        """One after the other."""
        for place in bits(left.last) if right.first else ():
            self.follow[place] |= right.first
        return Fragment(
            left.nullable and right.nullable,
            left.first | right.first if left.nullable else left.first,
            left.last | right.last if right.nullable else right.last,
        )

    def loop(self, body: Fragment) -> Fragment:
        """The body any number of times, none included."""
        for place in bits(body.last):
            self.follow[place] |= body.first
        return Fragment(True, body.first, body.last)

    def embed(self, automaton: "Automaton") -> Fragment:
        """The language of another automaton over the same alphabet. Raises TooManyStates."""
        automaton.expand()
        places: dict[tuple[int, int], int] = {}
        leaving: list[int] = []
        for transitions in automaton.table:
            row = 0
            for mask, target in transitions:
                if (mask, target) not in places:
                    places[mask, target] = len(self.masks)
                    self.one(mask)
                row |= 1 << places[mask, target]
            leaving.append(row)
        last = 0
        for (_, target), place in places.items():
            self.follow[place] = leaving[target]
            if automaton.accepting[target]:
                last |= 1 << place
        return Fragment(automaton.accepting[0], leaving[0], last)


EMPTY_FRAGMENT = Fragment(True, 0, 0)


class Automaton:
    """A deterministic automaton; state 0 is the start. States are made on first use, up to a budget."""

    def __init__(self, positions: Positions, whole: Fragment, most_states: int) -> None:
        self._positions = positions
        self._last = whole.last
        self._most_states = most_states
        self._numbers: dict[tuple[int, bool], int] = {}
        self._next: list[int] = []
        self._rows: list[Transitions | None] = []
        self.accepting: list[bool] = []
        self._number(whole.first, whole.nullable)

    @classmethod
    def of_table(cls, table: list[Transitions], accepting: list[bool]) -> "Automaton":
        """An automaton that is written down already."""
        automaton = cls(Positions(), EMPTY_FRAGMENT, 0)
        automaton._rows = list(table)
        automaton.accepting = list(accepting)
        automaton._next = [0] * len(table)
        return automaton

    @property
    def table(self) -> list[Transitions]:
        """All states' transitions; only after `expand`."""
        return [self.transitions(state) for state in range(len(self._rows))]

    def expand(self) -> None:
        """Makes every state. Raises TooManyStates."""
        state = 0
        while state < len(self._rows):
            self.transitions(state)
            state += 1

    def transitions(self, state: int) -> Transitions:
        """Where one character leads from a state. Raises TooManyStates."""
        row = self._rows[state]
        if row is None:
            row = self._rows[state] = self._made(state)
        return row

    def live(self, state: int) -> int:
        """The characters that lead on from a state."""
        row = self._rows[state]
        mask = 0
        if row is not None:
            for some, _ in row:
                mask |= some
            return mask
        for place in bits(self._next[state]):
            mask |= self._positions.masks[place]
        return mask

    def _made(self, state: int) -> Transitions:
        by_mask: dict[int, int] = {}
        masks = self._positions.masks
        for place in bits(self._next[state]):
            by_mask[masks[place]] = by_mask.get(masks[place], 0) | (1 << place)
        targets: dict[int, int] = {}
        for mask, places in disjoint(list(by_mask.items())):
            following = 0
            for place in bits(places):
                following |= self._positions.follow[place]
            target = self._number(following, bool(places & self._last))
            targets[target] = targets.get(target, 0) | mask
        return [(mask, target) for target, mask in targets.items()]

    def _number(self, following: int, accepting: bool) -> int:
        """Two sets of positions with the same future are one state."""
        known = self._numbers.get((following, accepting))
        if known is not None:
            return known
        if len(self._rows) > self._most_states:
            raise TooManyStates
        self._numbers[following, accepting] = len(self._rows)
        self._next.append(following)
        self._rows.append(None)
        self.accepting.append(accepting)
        return len(self._rows) - 1


def useful_states(automaton: Automaton) -> list[int]:
    """Those between the start and an end, the start first. The automaton has an accepting state that is reached."""
    reached = {0: None}
    pending = [0]
    backwards: dict[int, list[int]] = {}
    while pending:
        state = pending.pop()
        for _, target in automaton.transitions(state):
            backwards.setdefault(target, []).append(state)
            if target not in reached:
                reached[target] = None
                pending.append(target)
    pending = [state for state in reached if automaton.accepting[state]]
    ending = set(pending)
    while pending:
        for state in backwards.get(pending.pop(), ()):
            if state not in ending:
                ending.add(state)
                pending.append(state)
    return [state for state in reached if state in ending]


def disjoint(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(mask, set) pairs cut so that the masks are disjoint; a piece has the union of the sets that it came from."""
    if len(pairs) > _MANY:
        return _disjoint_by_minterm(pairs)
    groups: list[tuple[int, int]] = []
    for mask, places in pairs:
        rest = mask
        cut: list[tuple[int, int]] = []
        for group, held in groups:
            shared = group & rest
            if not shared:
                cut.append((group, held))
                continue
            cut.append((shared, held | places))
            if group != shared:
                cut.append((group ^ shared, held))
            rest ^= shared
        if rest:
            cut.append((rest, places))
        groups = cut
    return groups


_MANY = 64


def _disjoint_by_minterm(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same for many pairs: work for each minterm in a mask, where cutting would be work for each pair of pairs."""
    holders: dict[int, int] = {}
    for mask, places in pairs:
        for minterm in bits(mask):
            holders[minterm] = holders.get(minterm, 0) | places
    groups: dict[int, int] = {}
    for minterm, places in holders.items():
        groups[places] = groups.get(places, 0) | (1 << minterm)
    return [(mask, places) for places, mask in groups.items()]
