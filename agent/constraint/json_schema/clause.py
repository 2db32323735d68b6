"""One way to satisfy a schema: a set of types, and for each type what its values must be."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, gcd, lcm
from typing import Any

from agent.constraint.json_schema.keywords import (
    ANYTHING,
    IMPOSSIBLE,
    Bound,
    Conjunction,
    Contains,
    SomeItem,
    SomeProperty,
)
from agent.constraint.json_schema.patterns import Pattern
from agent.constraint.json_schema.values import ALL_TYPES, ARRAY, BOOLEAN, FRACTION, INTEGER, NUMBERS, OBJECT, STRING


@dataclass(frozen=True, slots=True)
class Numbers:
    low: Bound | None = None
    high: Bound | None = None
    multiple: Fraction | None = None
    not_multiples: frozenset[Fraction] = frozenset()
    excluded: frozenset[Fraction] = frozenset()

    def is_empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        if self.low.value == self.high.value:
            return self.low.exclusive or self.high.exclusive or self.low.value in self.excluded
        return self.low.value > self.high.value

    def multiples(self, step: Fraction) -> range | None:
        """The factors k for which k * step lies within the bounds; None where a bound is missing."""
        if self.low is None or self.high is None:
            return None
        first, last = self.low.value / step, self.high.value / step
        start = floor(first) + 1 if self.low.exclusive else ceil(first)
        end = ceil(last) - 1 if self.high.exclusive else floor(last)
        return range(start, end + 1)


@dataclass(frozen=True, slots=True)
class Strings:
    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[Pattern, ...] = ()
    not_patterns: tuple[Pattern, ...] = ()
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Arrays:
    prefix: tuple[Conjunction, ...] = ()
    rest: Conjunction = ANYTHING
    least: int = 0
    most: int | None = None
    contains: tuple[Contains, ...] = ()
    some: tuple[SomeItem, ...] = ()
    unique: bool = False
    not_unique: bool = False

    def at(self, index: int) -> Conjunction:
        return self.prefix[index] if index < len(self.prefix) else self.rest


@dataclass(frozen=True, slots=True)
class Rule:
    """Of the members whose name is not listed: by pattern, and all others."""

    patterns: tuple[tuple[Pattern, Conjunction], ...]
    others: Conjunction

    def of(self, name: str) -> list[Conjunction]:
        found = [value for pattern, value in self.patterns if pattern.matches(name)]
        return found or [self.others]


@dataclass(frozen=True, slots=True)
class Objects:
    """`names`: the listed members in the order of the schema, with all that is demanded of each."""

    names: Mapping[str, Conjunction] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    required: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    name: Conjunction = ANYTHING
    some: tuple[SomeProperty, ...] = ()
    some_names: tuple[Conjunction, ...] = ()


@dataclass(frozen=True, slots=True)
class Clause:
    path: str
    types: frozenset[str] = ALL_TYPES
    values: tuple[Any, ...] | None = None
    has_exact_values: bool = False  # `values` were made of all the other demands, and need not be compared with them
    booleans: frozenset[bool] = frozenset({False, True})
    numbers: Numbers = Numbers()
    strings: Strings = Strings()
    arrays: Arrays = Arrays()
    objects: Objects = field(default_factory=Objects)

    def only(self, types: frozenset[str]) -> "Clause":
        return replace(self, types=self.types & types)


def settled(clause: Clause) -> Clause | None:
    """The clause without the types that have no value left, and without demands on types that are not there.

    None: no value satisfies it.
    """
    types = set(clause.types)
    if not clause.booleans:
        types.discard(BOOLEAN)
    types -= _impossible_numbers(clause.numbers, clause.types)
    strings = clause.strings
    if strings.max_length is not None and strings.min_length > strings.max_length:
        types.discard(STRING)
    arrays = _settled_arrays(clause.arrays) if ARRAY in types else Arrays()
    if arrays.most is not None and arrays.least > arrays.most:
        types.discard(ARRAY)
    objects = clause.objects
    if any(objects.names[name] == IMPOSSIBLE for name in objects.required):
        types.discard(OBJECT)
    if objects.most is not None and max(objects.least, len(objects.required)) > objects.most:
        types.discard(OBJECT)
    if not types or clause.values == ():
        return None
    if types == ALL_TYPES and arrays is clause.arrays:
        return clause
    return replace(
        clause,
        types=frozenset(types),
        booleans=clause.booleans if BOOLEAN in types else frozenset({False, True}),
        numbers=clause.numbers if types & NUMBERS else Numbers(),
        strings=strings if STRING in types else Strings(),
        arrays=arrays if ARRAY in types else Arrays(),
        objects=objects if OBJECT in types else Objects(),
    )


def _impossible_numbers(numbers: Numbers, types: frozenset[str]) -> frozenset[str]:
    """Types of numbers of which none is left. Where fractions are left the type is "number", with whole ones or not."""
    if numbers.is_empty() or (numbers.multiple is not None and numbers.multiples(numbers.multiple) == range(0)):
        return NUMBERS
    only_whole = numbers.multiple is not None and numbers.multiple.denominator == 1
    gone = {FRACTION} if only_whole else set()
    if only_whole or FRACTION not in types:
        # The whole multiples of p/q in lowest terms are the multiples of p.
        step = Fraction(1) if numbers.multiple is None else Fraction(numbers.multiple.numerator)
        if numbers.multiples(step) == range(0):
            gone.add(INTEGER)
    return frozenset(gone)


def _settled_arrays(arrays: Arrays) -> Arrays:
    """An item that cannot be there ends the array before it."""
    most = arrays.most
    for index, item in enumerate(arrays.prefix):
        if item == IMPOSSIBLE:
            most = index if most is None else min(most, index)
            break
    else:
        if arrays.rest == IMPOSSIBLE and (most is None or most > len(arrays.prefix)):
            most = len(arrays.prefix)
    if most is None or (most == arrays.most and most >= len(arrays.prefix)):
        return arrays
    rest = ANYTHING if most <= len(arrays.prefix) else arrays.rest
    return replace(arrays, prefix=arrays.prefix[:most], most=most, rest=rest)


def common_multiple(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    if one is None or other is None:
        return one or other
    return Fraction(lcm(one.numerator, other.numerator), gcd(one.denominator, other.denominator))
