"""What one subschema demands, in a form that both drafts share and that the algebra works on.

A conjunction is a tuple of literals, none twice, in the order in which members shall be written; a literal is the
number of a subschema, negative where the subschema must not hold. The empty conjunction holds for every value,
IMPOSSIBLE for none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from agent.constraint.json_schema.patterns import Pattern
from agent.constraint.json_schema.values import ALL_TYPES

Conjunction = tuple[int, ...]
ANYTHING: Conjunction = ()
NOTHING_IDENTITY = 1
IMPOSSIBLE: Conjunction = (NOTHING_IDENTITY,)


class Bound(NamedTuple):
    """An end of a number interval."""

    value: Fraction
    exclusive: bool


class Contains(NamedTuple):
    """Between `least` and `most` items of an array satisfy `items` (most None: any number)."""

    items: Conjunction
    least: int
    most: int | None


class SomeItem(NamedTuple):
    """At least one item at index `start` or later satisfies `items`."""

    start: int
    items: Conjunction
    path: str


class SomeProperty(NamedTuple):
    """At least one member satisfies `value`; its name is not in `names`, matches none of `patterns`, and `matching`."""

    names: frozenset[str]
    patterns: tuple[Pattern, ...]
    matching: Pattern | None
    value: Conjunction
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class Keywords:
    """The assertions of one subschema. Each holds for values of other types by itself, as in the standard."""

    path: str
    types: frozenset[str] = ALL_TYPES
    values: tuple[Any, ...] | None = None
    not_values: tuple[Any, ...] = ()  # scalars only

    low: Bound | None = None
    high: Bound | None = None
    multiple: Fraction | None = None
    not_multiple: Fraction | None = None

    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[Pattern, ...] = ()
    not_patterns: tuple[Pattern, ...] = ()

    prefix: tuple[Conjunction, ...] = ()
    rest: Conjunction = ANYTHING
    min_items: int = 0
    max_items: int | None = None
    contains: Contains | None = None
    unique: bool = False
    not_unique: bool = False
    some_item: SomeItem | None = None

    names: Mapping[str, Conjunction] = field(default_factory=dict)
    name_patterns: tuple[tuple[Pattern, Conjunction], ...] = ()
    other_names: Conjunction = ANYTHING
    required: tuple[str, ...] = ()
    min_properties: int = 0
    max_properties: int | None = None
    property_names: Conjunction = ANYTHING
    some_property: SomeProperty | None = None
    some_name: Conjunction | None = None

    also: Conjunction = ANYTHING
    choices: tuple[tuple[Conjunction, ...], ...] = ()
    exclusive: tuple[tuple[Conjunction, ...], ...] = ()


def conjoin(*conjunctions: Conjunction) -> Conjunction:
    """All of them at once; IMPOSSIBLE where one contradicts another."""
    literals = dict.fromkeys(literal for conjunction in conjunctions for literal in conjunction)
    if NOTHING_IDENTITY in literals or any(-literal in literals for literal in literals):
        return IMPOSSIBLE
    return tuple(literal for literal in literals if literal != -NOTHING_IDENTITY)
