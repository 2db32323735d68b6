"""Numbers as the library computes with them: bounds are doubles, multiples have a remainder for each state."""

import math
from fractions import Fraction
from typing import Any

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.clause import Numbers
from agent.constraint.json_schema.keywords import Bound
from agent.constraint.json_schema.values import exact, numbers_in

# Beyond it not every whole number is a double: 2**53 + 1 is read as 2**53.
_LARGEST_EXACT = 2**53
_LARGEST_INTEGER = 2**63 - 1024
_MOST_DIGITS = 15
_SMALLEST = Fraction(1, 10**9)
# A multiple costs the library a state for each remainder: 10,000 take 0.05 s, 1,000,003 nine seconds.
_MOST_REMAINDERS = 20_000


def numbers_schema(numbers: Numbers, is_integer: bool, path: str) -> dict[str, Any]:
    """The keywords of bounds and multiples. Bounds too large are drawn in: never wider. Raises SchemaError."""
    schema: dict[str, Any] = {}
    low, high = numbers.low, numbers.high
    if is_integer:
        if low is not None:
            lowest = math.floor(low.value) + 1 if low.exclusive else math.ceil(low.value)
            schema["minimum"] = -_drawn_in(-lowest, path)
        if high is not None:
            schema["maximum"] = _drawn_in(math.ceil(high.value) - 1 if high.exclusive else math.floor(high.value), path)
    else:
        if low is not None:
            schema["exclusiveMinimum" if low.exclusive else "minimum"] = -_largest(_negated(low), path)
        if high is not None:
            schema["exclusiveMaximum" if high.exclusive else "maximum"] = _largest(high, path)
    if numbers.multiple is not None:
        schema["multipleOf"] = _multiple(numbers.multiple, path)
    return schema


def check_numbers(value: Any, path: str) -> None:
    """Raises SchemaError where an enum holds a number that the library would take for another."""
    for number in numbers_in(value):
        if abs(exact(number)) > _LARGEST_EXACT or (isinstance(number, float) and not _is_short(exact(number))):
            raise SchemaError(
                "a number this large, or of so many digits, cannot be written exactly; use a shorter one, or a string",
                path,
            )


def _is_short(value: Fraction) -> bool:
    digits = repr(float(value)).partition("e")[0].replace(".", "").strip("-0")
    return exact(float(value)) == value and len(digits) <= _MOST_DIGITS and (value == 0 or abs(value) >= _SMALLEST)


def _negated(bound: Bound) -> Bound:
    return Bound(-bound.value, bound.exclusive)


def _drawn_in(highest: int, path: str) -> int:
    """The largest whole number up to `highest` that is a double of 64 bits."""
    if highest < -_LARGEST_INTEGER:
        raise SchemaError("a whole number beyond 64 bits cannot be enforced", path)
    found = float(min(highest, _LARGEST_INTEGER))
    return int(found if found <= highest else math.nextafter(found, -math.inf))


def _largest(bound: Bound, path: str) -> int | float:
    """An upper bound of numbers, as a double."""
    value = min(bound.value, Fraction(_LARGEST_EXACT))
    if value < -_LARGEST_EXACT or not (value.denominator == 1 or _is_short(value)):
        raise SchemaError("a bound this large, or of so many digits, cannot be enforced", path)
    return value.numerator if value.denominator == 1 else float(value)


def _multiple(multiple: Fraction, path: str) -> int | float:
    places = next((places for places in range(10) if (multiple * 10**places).denominator == 1), None)
    if places is None or multiple * 10**places > _MOST_REMAINDERS:
        raise SchemaError(f"multipleOf can be enforced up to {_MOST_REMAINDERS} steps of its last decimal place", path)
    return multiple.numerator if multiple.denominator == 1 else float(multiple)
