"""Rewrites what the library cannot say of one clause into alternatives that it can, or refuses it."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.clause import Arrays, Clause, Numbers, Objects, Strings, settled
from agent.constraint.json_schema.finishing_arrays import ArrayFinishing
from agent.constraint.json_schema.finishing_objects import ObjectFinishing
from agent.constraint.json_schema.keywords import Bound
from agent.constraint.json_schema.limits import WORK_OF_TEXT_SET
from agent.constraint.json_schema.text_sets import TextSet, any_text, writable
from agent.constraint.json_schema.values import ARRAY, BOOLEAN, FRACTION, INTEGER, NUMBERS, OBJECT, STRING
from agent.constraint.lark.automaton import TooManyStates
from agent.constraint.tree import NOTHING

if TYPE_CHECKING:
    from agent.constraint.json_schema.expansion import Expansion

MAX_LISTED_NUMBERS = 256
# A length up to here takes part in the question whether patterns leave any text.
MAX_LENGTH_LOOKED_AT = 64


class Finishing:
    """Each question may lead to further expansions: of items, members and names."""

    def __init__(self, expansion: "Expansion") -> None:
        self._work = expansion.subschemas.work
        self._texts: dict[Strings, bool] = {}
        self._arrays = ArrayFinishing(expansion)
        self._objects = ObjectFinishing(expansion)

    def further(self, clause: Clause) -> list[Clause] | None:
        """Clauses that together say the same and have one difficulty less; None: the clause can be written.

        Raises SchemaError.
        """
        if clause.values is not None:
            return None if clause.values else []
        if STRING in clause.types and self.has_no_text(clause.strings, clause.path):
            return _kept([replace(clause, types=clause.types - {STRING})])
        if BOOLEAN in clause.types and len(clause.booleans) == 1:
            only = replace(clause, types=frozenset({BOOLEAN}), values=tuple(clause.booleans), has_exact_values=True)
            return _kept([replace(clause, types=clause.types - {BOOLEAN}), only])
        numbers = self._numbers(clause)
        if numbers is not None:
            return numbers
        if ARRAY in clause.types:
            found = self._arrays.further(clause.arrays, clause.path)
            if found is not None:
                return _put(clause, ARRAY, found)
        if OBJECT in clause.types:
            objects = self._objects.further(clause.objects, clause.path)
            if objects is not None:
                return _put(clause, OBJECT, objects)
        return None

    # Texts

    def has_no_text(self, strings: Strings, path: str) -> bool:
        """Whether it is certain that no text is left."""
        if not strings.patterns and not strings.not_patterns:
            return False
        if strings not in self._texts:
            self._work.take(WORK_OF_TEXT_SET, path)
            self._texts[strings] = _has_no_text(strings)
        return self._texts[strings]

    # Numbers

    def _numbers(self, clause: Clause) -> list[Clause] | None:
        numbers, types = clause.numbers, clause.types & NUMBERS
        if not types:
            return None
        if numbers.excluded:
            return self._without_one(clause, min(numbers.excluded))
        never_whole = types == {FRACTION}
        if not numbers.not_multiples and not never_whole:
            return None
        others = replace(clause, types=clause.types - NUMBERS)
        listed = _listed(numbers, types)
        if listed is None:
            if INTEGER in types and all(_divides(step, numbers.multiple, types) for step in numbers.not_multiples):
                return _kept([others])
            word = "a number that is not whole" if never_whole else "not multipleOf"
            raise SchemaError(f"{word} cannot be enforced; give minimum and maximum, or an enum", clause.path)
        only = replace(clause, types=types, values=listed, has_exact_values=True)
        return _kept([others, only])

    @staticmethod
    def _without_one(clause: Clause, value: Fraction) -> list[Clause]:
        numbers = clause.numbers
        rest = replace(numbers, excluded=numbers.excluded - {value})
        low, high = numbers.low, numbers.high
        if (low is not None and value < low.value) or (high is not None and value > high.value):
            return _kept([replace(clause, numbers=rest)])
        only = clause.only(NUMBERS)
        below = replace(only, numbers=replace(rest, high=Bound(value, True)))
        above = replace(only, numbers=replace(rest, low=Bound(value, True)))
        return _kept([replace(clause, types=clause.types - NUMBERS), below, above])


def _divides(step: Fraction, multiple: Fraction | None, types: frozenset[str]) -> bool:
    """Whether every number left is a multiple of `step`."""
    if multiple is None:
        return types == {INTEGER} and step.numerator == 1
    return (multiple / step).denominator == 1


def _listed(numbers: Numbers, types: frozenset[str]) -> tuple[Any, ...] | None:
    """All numbers left, where they are few."""
    if types == {INTEGER} and numbers.multiple is None:
        step = Fraction(1)
    elif numbers.multiple is not None:
        step = numbers.multiple
    else:
        return None
    factors = numbers.multiples(step)
    if factors is None or len(factors) > MAX_LISTED_NUMBERS:
        return None
    found = []
    for value in (factor * step for factor in factors):
        kind = INTEGER if value.denominator == 1 else FRACTION
        if kind in types and not any((value / never).denominator == 1 for never in numbers.not_multiples):
            found.append(int(value) if kind == INTEGER else float(value))
    return tuple(found)


def _kept(clauses: list[Clause]) -> list[Clause]:
    found = [settled(clause) if clause.types else None for clause in clauses]
    return [clause for clause in found if clause is not None]


def _put(clause: Clause, kind: str, parts: Sequence[Arrays | Objects | tuple[Any, ...]]) -> list[Clause]:
    """The clause with each of the alternatives for one of its types. A tuple lists the values of that type."""
    if len(parts) == 1 and not isinstance(parts[0], tuple):
        return _kept([_with_part(clause, parts[0])])
    others = replace(clause, types=clause.types - {kind})
    only = clause.only(frozenset({kind}))
    return _kept([others, *(_with_part(only, part) for part in parts)])


def _with_part(clause: Clause, part: Arrays | Objects | tuple[Any, ...]) -> Clause:
    if isinstance(part, Arrays):
        return replace(clause, arrays=part)
    if isinstance(part, Objects):
        return replace(clause, objects=part)
    return replace(clause, values=part, has_exact_values=True)


def _has_no_text(strings: Strings) -> bool:
    nodes = [pattern.node for pattern in strings.patterns]
    most = strings.max_length
    if most is not None and most <= MAX_LENGTH_LOOKED_AT:
        nodes.append(any_text(strings.min_length, most))
    forbidden = [pattern.node for pattern in strings.not_patterns]
    if len(nodes) == 1 and not forbidden:
        return writable(nodes[0]) == NOTHING
    try:
        return TextSet(nodes, forbidden).is_empty()
    except TooManyStates:
        return False
