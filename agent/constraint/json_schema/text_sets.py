"""Sets of texts combined: in these, not in those, as an automaton and back as a regular tree."""

import functools
from collections.abc import Iterable

from agent.constraint.json_schema.options import is_writable
from agent.constraint.json_schema.patterns import ANY_TEXT
from agent.constraint.languages.code_points import code_points, without
from agent.constraint.lark.alphabet import Alphabet, classes_in
from agent.constraint.lark.automaton import Automaton, TooManyStates
from agent.constraint.lark.automaton_tree import tree_of
from agent.constraint.lark.regular import RegularTrees
from agent.constraint.tree import (
    NOTHING,
    CharacterClass,
    Choice,
    CodePointRanges,
    FreeText,
    Node,
    Repeat,
    Sequence,
    Text,
)

MAX_STATES = 600
MAX_NODES = 5_000
_UNWRITABLE = code_points([*((code, code) for code in range(32) if not is_writable(chr(code))), (127, 127)])


def writable(node: Node) -> Node:
    """The texts of `node` that JSON text can hold under our options. NOTHING where there is none."""
    match node:
        case CharacterClass(ranges):
            kept = _writable_ranges(ranges)
            return CharacterClass(kept) if kept else NOTHING
        case Text(text):
            return node if is_writable(text) else NOTHING
        case FreeText((), None):
            return writable(ANY_TEXT)
        case Sequence(parts):
            kept_parts = tuple(map(writable, parts))
            return NOTHING if NOTHING in kept_parts else Sequence(kept_parts)
        case Choice(options):
            kept_options = tuple(option for option in map(writable, options) if option != NOTHING)
            return kept_options[0] if len(kept_options) == 1 else Choice(kept_options)
        case Repeat(body, least, most):
            inner = writable(body)
            if most == 0 or (inner == NOTHING and least == 0):
                return Text("")
            return NOTHING if inner == NOTHING else Repeat(inner, least, most)
        case _:
            raise ValueError(f"{type(node).__name__} is in no pattern")


@functools.lru_cache(maxsize=1024)
def _writable_ranges(ranges: CodePointRanges) -> CodePointRanges:
    return without(ranges, _UNWRITABLE)


def any_text(least: int, most: int | None) -> Node:
    """The texts of so many characters."""
    return Repeat(ANY_TEXT.body, least, most)


class TextSet:
    """The texts that are in all of `required` and in none of `forbidden`: a deterministic automaton of at most
    MAX_STATES states, minimal. Raises TooManyStates.
    """

    def __init__(self, required: Iterable[Node], forbidden: Iterable[Node]) -> None:
        ins, outs = [writable(ANY_TEXT), *map(writable, required)], list(map(writable, forbidden))
        self._alphabet = Alphabet(ranges for node in (*ins, *outs) for ranges in classes_in(node))
        trees = RegularTrees({}, self._alphabet)
        self._parts = [trees.exact(node) for node in (*ins, *outs)]
        self._signs = [True] * len(ins) + [False] * len(outs)
        self._rows: list[dict[int, int]] = []  # state -> {next state: mask}
        self._accepting: list[bool] = []
        self._build()
        self._minimise()

    def is_empty(self) -> bool:
        return not any(self._accepting)

    def _build(self) -> None:
        start = (0,) * len(self._parts)
        numbers, states = {start: 0}, [start]
        for state in states:
            self._accepting.append(
                all(
                    sign == (at >= 0 and part.accepting[at])
                    for sign, part, at in zip(self._signs, self._parts, state, strict=True)
                )
            )
            row: dict[int, int] = {}
            for mask, target in self._steps(state):
                if target not in numbers:
                    if len(states) > MAX_STATES:
                        raise TooManyStates
                    numbers[target] = len(states)
                    states.append(target)
                row[numbers[target]] = row.get(numbers[target], 0) | mask
            self._rows.append(row)

    def _steps(self, state: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """-1 stands for the state of a part from which nothing leads to acceptance."""
        pieces: list[tuple[int, tuple[int, ...]]] = [(self._alphabet.every_character, ())]
        for sign, part, at in zip(self._signs, self._parts, state, strict=True):
            transitions = part.transitions(at) if at >= 0 else []
            cut = []
            for piece, targets in pieces:
                rest = piece
                for mask, target in transitions:
                    if rest & mask:
                        cut.append((rest & mask, (*targets, target)))
                        rest &= ~mask
                if rest and not sign:
                    cut.append((rest, (*targets, -1)))
            pieces = cut
        return pieces

    def _minimise(self) -> None:
        """Drops what leads nowhere, then joins states with the same future (Moore)."""
        alive = {index for index, accepting in enumerate(self._accepting) if accepting}
        before = -1
        while before != len(alive):
            before = len(alive)
            alive |= {index for index, row in enumerate(self._rows) if not alive.isdisjoint(row)}
        if 0 not in alive:
            self._rows, self._accepting = [{}], [False]
            return
        groups = {index: int(self._accepting[index]) for index in alive}
        while True:
            keys = {index: (groups[index], *self._grouped(index, groups)) for index in sorted(alive)}
            numbers: dict[object, int] = {}
            fresh = {index: numbers.setdefault(key, len(numbers)) for index, key in keys.items()}
            is_stable = len(set(fresh.values())) == len(set(groups.values()))
            groups = fresh
            if is_stable:
                break
        rows: list[dict[int, int]] = [{} for _ in numbers]
        accepting = [False] * len(numbers)
        for index in alive:
            rows[groups[index]] = dict(self._grouped(index, groups))
            accepting[groups[index]] = self._accepting[index]
        # State 0 came first, so its group is number 0.
        self._rows, self._accepting = rows, accepting

    def _grouped(self, index: int, groups: dict[int, int]) -> tuple[tuple[int, int], ...]:
        row: dict[int, int] = {}
        for target, mask in self._rows[index].items():
            if target in groups:
                row[groups[target]] = row.get(groups[target], 0) | mask
        return tuple(sorted(row.items()))

    def node(self) -> Node:
        """The set as a regular tree. Raises TooManyStates."""
        table = [[(mask, target) for target, mask in row.items()] for row in self._rows]
        return tree_of(Automaton.of_table(table, self._accepting), self._alphabet, MAX_NODES)
