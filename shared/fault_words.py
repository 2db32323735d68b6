"""What pydantic finds wrong with a value, in our words: `must be at least 1`. Never repeats the value itself."""

from collections.abc import Callable, Mapping
from typing import Any

_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda _: "is required",
    "extra_forbidden": lambda _: "is not a known field",
    "greater_than": lambda limits: f"must be greater than {_number(limits['gt'])}",
    "greater_than_equal": lambda limits: f"must be at least {_number(limits['ge'])}",
    "less_than": lambda limits: f"must be less than {_number(limits['lt'])}",
    "less_than_equal": lambda limits: f"must be at most {_number(limits['le'])}",
    "int_type": lambda _: "must be an integer",
    "int_parsing": lambda _: "must be an integer",
    "int_from_float": lambda _: "must be an integer",
    "int_parsing_size": lambda _: "is too large",
    "float_type": lambda _: "must be a number",
    "float_parsing": lambda _: "must be a number",
    "finite_number": lambda _: "must be a finite number",
    "bool_type": lambda _: "must be true or false",
    "bool_parsing": lambda _: "must be true or false",
    "string_type": lambda _: "must be a string",
    "string_too_short": lambda limits: _at_least_characters(limits["min_length"]),
    "string_too_long": lambda limits: f"must have at most {limits['max_length']} characters",
    "too_long": lambda limits: f"must have at most {limits['max_length']} entries",
    "too_short": lambda limits: f"must have at least {limits['min_length']} entries",
    "enum": lambda limits: f"must be one of {limits['expected']}",
    "literal_error": lambda limits: f"must be one of {limits['expected']}",
    "list_type": lambda _: "must be a list",
    "dict_type": lambda _: "must be an object",
    "model_type": lambda _: "must be an object",
    "model_attributes_type": lambda _: "must be an object",
    "json_invalid": lambda problem: f"the body is not valid JSON: {problem['error']}",
}


def fault_words(kind: str, limits: Mapping[str, Any]) -> str | None:
    """The words for a fault's `type` and `ctx`, to stand behind the name of what is wrong; None for a kind without."""
    words = _WORDS.get(kind)
    return None if words is None else words(limits)


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _at_least_characters(count: int) -> str:
    return "must not be empty" if count == 1 else f"must have at least {count} characters"
