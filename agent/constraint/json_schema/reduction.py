"""Makes conjunctions smaller without changing their meaning: equal ones look equal, impossible ones are seen."""

from dataclasses import fields
from typing import Any

from agent.constraint.json_schema.evaluation import Evaluation
from agent.constraint.json_schema.keywords import ANYTHING, IMPOSSIBLE, Conjunction, Keywords, conjoin
from agent.constraint.json_schema.limits import MAX_REFERENCE_CHAIN
from agent.constraint.json_schema.subschemas import Subschemas
from agent.constraint.json_schema.values import ALL_TYPES, type_of

_PLAIN = Keywords("#")
_ASSERTIONS = tuple(entry.name for entry in fields(Keywords) if entry.name != "path")


def assertions(keywords: Keywords) -> frozenset[str]:
    """The names of the fields that say something."""
    return frozenset(name for name in _ASSERTIONS if getattr(keywords, name) != getattr(_PLAIN, name))


class Reduction:
    """Remembers what it has reduced."""

    def __init__(self, subschemas: Subschemas, evaluation: Evaluation) -> None:
        self._subschemas = subschemas
        self._evaluation = evaluation
        self._reduced: dict[Conjunction, Conjunction] = {ANYTHING: ANYTHING, IMPOSSIBLE: IMPOSSIBLE}
        self._said: dict[int, frozenset[str]] = {}
        self._types: dict[int, frozenset[str]] = {}
        self._values: dict[Conjunction, tuple[Any, ...] | None] = {}

    def reduced(self, conjunction: Conjunction) -> Conjunction:
        found = self._reduced.get(conjunction)
        if found is None:
            found = self._reduced[conjunction] = self._reduce(self._resolved(conjunction))
            self._reduced[found] = found
        return found

    def said(self, number: int) -> frozenset[str]:
        """The names of the fields of Keywords in which this subschema says something."""
        if number not in self._said:
            self._said[number] = assertions(self._subschemas.keywords(number))
        return self._said[number]

    def types(self, literal: int, depth: int = 0) -> frozenset[str]:
        """No value of another type satisfies the literal."""
        if literal < 0:
            only = self.said(-literal) == {"types"}
            return ALL_TYPES - self._subschemas.keywords(-literal).types if only else ALL_TYPES
        if literal not in self._types:
            keywords = self._subschemas.keywords(literal)
            types = keywords.types
            if keywords.values is not None:
                types &= {type_of(value) for value in keywords.values}
            if depth < MAX_REFERENCE_CHAIN:
                for other in keywords.also:
                    types &= self.types(other, depth + 1)
            self._types[literal] = types
        return self._types[literal]

    def all_types(self, conjunction: Conjunction) -> frozenset[str]:
        types = ALL_TYPES
        for literal in conjunction:
            types &= self.types(literal)
        return types

    def values(self, conjunction: Conjunction) -> tuple[Any, ...] | None:
        """All values that satisfy the conjunction, where an enum or const lists them."""
        if conjunction not in self._values:
            listed = self._listed(conjunction, 0)
            self._values[conjunction] = listed and tuple(
                value for value in listed if self._evaluation.holds(conjunction, value)
            )
        return self._values[conjunction]

    def _listed(self, conjunction: Conjunction, depth: int) -> tuple[Any, ...] | None:
        if depth > MAX_REFERENCE_CHAIN:
            return None
        for literal in conjunction:
            if literal > 0:
                keywords = self._subschemas.keywords(literal)
                listed = keywords.values if keywords.values is not None else self._listed(keywords.also, depth + 1)
                if listed is not None:
                    return listed
        return None

    def _resolved(self, conjunction: Conjunction) -> Conjunction:
        """Replaces subschemas that are only references to others, or that say nothing."""
        waiting, kept = list(reversed(conjunction)), dict[int, None]()
        while waiting:
            literal = waiting.pop()
            if literal in kept:
                continue
            said = self.said(abs(literal))
            also = self._subschemas.keywords(abs(literal)).also
            if not said:
                if literal < 0:
                    return IMPOSSIBLE
            elif said == {"also"} and literal > 0:
                waiting.extend(reversed(also))
            elif said == {"also"} and len(also) == 1:
                waiting.append(-also[0])
            else:
                kept[literal] = None
        return conjoin(tuple(kept))

    def _reduce(self, conjunction: Conjunction) -> Conjunction:
        types = self.all_types(conjunction)
        if not types:
            return IMPOSSIBLE
        # A subschema of other types is not satisfied anyway. Only literals that stay may say so.
        stated = self.all_types(tuple(literal for literal in conjunction if literal > 0))
        conjunction = tuple(literal for literal in conjunction if literal > 0 or self.types(-literal) & stated)
        values = self.values(conjunction)
        if values is None:
            return conjunction
        if not values:
            return IMPOSSIBLE
        for literal in conjunction:
            if literal > 0 and self._subschemas.keywords(literal).values is not None:
                own = self.values((literal,))
                if own is not None and len(own) == len(values):
                    return (literal,)  # the others hold for each of its values
        return conjunction
