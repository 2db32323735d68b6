"""JSON values as the standard compares them: 1 equals 1.0 and not true, objects have no order."""

from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Any

NULL, BOOLEAN, INTEGER, FRACTION = "null", "boolean", "integer", "fraction"
STRING, ARRAY, OBJECT = "string", "array", "object"
# "fraction" is a number that is no integer, so that a type and the absence of one are both sets of these.
ALL_TYPES = frozenset({NULL, BOOLEAN, INTEGER, FRACTION, STRING, ARRAY, OBJECT})
NUMBERS = frozenset({INTEGER, FRACTION})
TYPE_NAMES: dict[str, frozenset[str]] = {
    name: frozenset({name}) for name in (NULL, BOOLEAN, INTEGER, STRING, ARRAY, OBJECT)
} | {"number": NUMBERS}


def exact(number: int | float) -> Fraction:
    """The number as it is written in decimal: 0.1 is a tenth."""
    return Fraction(Decimal(repr(number))) if isinstance(number, float) else Fraction(number)


def type_of(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int | float):
        return INTEGER if exact(value).denominator == 1 else FRACTION
    if isinstance(value, str):
        return STRING
    return ARRAY if isinstance(value, list) else OBJECT


def key_of(value: Any) -> Hashable:
    """Equal for exactly those values that JSON Schema calls equal."""
    kind = type_of(value)
    if kind in NUMBERS:
        return ("number", exact(value))
    if kind == ARRAY:
        return (kind, tuple(key_of(item) for item in value))
    if kind == OBJECT:
        return (kind, frozenset((name, key_of(item)) for name, item in value.items()))
    return (kind, value)


def texts_in(value: Any) -> list[str]:
    """All strings in the value, names of members included."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            found.extend(item)
            waiting.extend(item.values())
    return found


def numbers_in(value: Any) -> list[int | float]:
    """All numbers in the value."""
    found: list[int | float] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, int | float) and not isinstance(item, bool):
            found.append(item)
    return found
