"""Questions about what several subschemas leave together: is there any value, and are two of them disjoint."""

from itertools import combinations
from typing import TYPE_CHECKING

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.clause import Clause
from agent.constraint.json_schema.keywords import ANYTHING, IMPOSSIBLE, Conjunction, conjoin
from agent.constraint.json_schema.values import ARRAY, BOOLEAN, NULL, NUMBERS, OBJECT, STRING, key_of

if TYPE_CHECKING:
    from agent.constraint.json_schema.expansion import Expansion

Fork = tuple[Conjunction, ...]
# How far into members and items emptiness is looked for; what is not found there is found on the rewritten schema.
EMPTINESS_DEPTH = 3
MAX_QUESTIONS_NESTED = 10


class Comparison:
    """Remembers its answers. A yes is certain; a no may only mean that it was not found."""

    def __init__(self, expansion: "Expansion") -> None:
        self._expansion = expansion
        self._empty: dict[tuple[Conjunction, int], bool] = {}
        self._fixed: dict[Conjunction, dict[str, frozenset[object]]] = {}
        self._separated: dict[Fork, Fork] = {}
        self._nesting = 0

    # oneOf

    def separated(self, group: Fork) -> Fork:
        """`oneOf` as a choice: each option together with the absence of those that it might overlap with."""
        if group in self._separated:
            return self._separated[group]
        self._expansion.subschemas.work.take(len(group) ** 2 // 4, self._expansion.path(group[0]))
        overlapping: list[list[Conjunction]] = [[] for _ in group]
        for (at, one), (other_at, other) in combinations(enumerate(group), 2):
            if not self.are_disjoint(one, other):
                overlapping[at].append(self._expansion.subschemas.negated(other))
                overlapping[other_at].append(self._expansion.subschemas.negated(one))
        options = [conjoin(option, *others) for option, others in zip(group, overlapping, strict=True)]
        self._separated[group] = tuple(option for option in options if option != IMPOSSIBLE)
        return self._separated[group]

    def are_disjoint(self, one: Conjunction, other: Conjunction) -> bool:
        """Whether it is certain that no value satisfies both."""
        if not self._expansion.reduction.all_types(one) & self._expansion.reduction.all_types(other):
            return True
        ours, theirs = self._fixed_members(one), self._fixed_members(other)
        if ours is not None and theirs is not None:
            if any(name in theirs and values.isdisjoint(theirs[name]) for name, values in ours.items()):
                return True
        self._expansion.subschemas.work.take(5, self._expansion.path(one))
        both = self._expansion.reduction.reduced(conjoin(one, other))
        if both == IMPOSSIBLE:
            return True
        return self.is_empty(both)

    def _fixed_members(self, conjunction: Conjunction) -> dict[str, frozenset[object]] | None:
        """Of a conjunction that only objects satisfy: required members with the few values that they may have."""
        if self._expansion.reduction.all_types(conjunction) != {OBJECT}:
            return None
        if conjunction not in self._fixed:
            found: dict[str, frozenset[object]] = {}
            waiting, seen = list(conjunction), set[int]()
            while waiting:
                literal = waiting.pop()
                if literal <= 0 or literal in seen:
                    continue
                seen.add(literal)
                keywords = self._expansion.subschemas.keywords(literal)
                waiting.extend(keywords.also)
                for name in keywords.required:
                    values = self._expansion.reduction.values(keywords.names.get(name, ANYTHING))
                    if values is not None:
                        found[name] = frozenset(key_of(value) for value in values)
            self._fixed[conjunction] = found
        return self._fixed[conjunction]

    # Emptiness

    def is_empty(self, conjunction: Conjunction, depth: int = EMPTINESS_DEPTH) -> bool:
        """Whether it is certain that no value satisfies the conjunction."""
        conjunction = self._expansion.reduction.reduced(conjunction)
        if conjunction == IMPOSSIBLE:
            return True
        if conjunction == ANYTHING or depth == 0 or self._nesting > MAX_QUESTIONS_NESTED:
            return False
        key = (conjunction, depth)
        if key not in self._empty:
            self._empty[key] = False  # what it is asked about itself meanwhile
            self._nesting += 1
            try:
                clauses = self._expansion.clauses(conjunction)
                self._empty[key] = all(self._is_empty_clause(clause, depth - 1) for clause in clauses)
            except SchemaError:
                self._expansion.subschemas.work.take(
                    1, self._expansion.path(conjunction)
                )  # raises again when the work was too much
            finally:
                self._nesting -= 1
        return self._empty[key]

    def _is_empty_clause(self, clause: Clause, depth: int) -> bool:
        if clause.values is not None:
            return not clause.values
        if clause.types & (NUMBERS | {NULL, BOOLEAN}):
            return False
        if STRING in clause.types and not self._expansion.finishing.has_no_text(clause.strings, clause.path):
            return False
        arrays, objects = clause.arrays, clause.objects
        if ARRAY in clause.types:
            firsts = {arrays.at(index) for index in range(min(arrays.least, len(arrays.prefix) + 1))}
            if not any(self.is_empty(item, depth) for item in firsts):
                return False
        if OBJECT in clause.types:
            return any(self.is_empty(objects.names[name], depth) for name in objects.required)
        return True
