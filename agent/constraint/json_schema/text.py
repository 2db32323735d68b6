"""From the client's text or object to a JSON value that is safe to work on: strict, bounded, without surprises."""

import json
import math
import re
from typing import Any, NoReturn

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.limits import (
    MAX_INTEGER_DIGITS,
    MAX_JSON_VALUES,
    MAX_NESTING,
    MAX_TEXT_CHARACTERS,
)

_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_TOO_DEEP = f"the schema nests deeper than {MAX_NESTING} levels; give its parts names in $defs"


def read_schema(schema: str | dict[str, Any]) -> Any:
    """The JSON value of a schema that came as text or as an object.

    Strict JSON (RFC 8259): duplicate members, NaN, numbers beyond a double and lone surrogates are refused.
    Raises SchemaError.
    """
    if isinstance(schema, str):
        if len(schema) > MAX_TEXT_CHARACTERS:
            raise SchemaError(f"the schema has more than {MAX_TEXT_CHARACTERS} characters")
        _check_nesting(schema)
        schema = _parse(schema)
    _check_values(schema)
    if not isinstance(schema, dict | bool):
        raise SchemaError("a schema is a JSON object, true or false")
    return schema


def pointer(path: str, *tokens: str | int) -> str:
    """`path` with further tokens of a JSON pointer (RFC 6901)."""
    return path + "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def _check_nesting(text: str) -> None:
    # Before the parser sees it, because that one recurses.
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        mark = found.group()
        if mark in ("[", "{"):
            depth += 1
            if depth > MAX_NESTING:
                raise SchemaError(_TOO_DEEP)
        elif mark in ("]", "}"):
            depth -= 1


def _parse(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_integer)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SchemaError(f"the schema is not JSON: {error.msg} at {place}") from None
    except (ValueError, RecursionError):
        raise SchemaError("the schema is not JSON") from None


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) != len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"an object of the schema has the member {twice[:40]!r} twice")
    return value


def _no_constant(name: str) -> NoReturn:
    raise SchemaError(f"{name} is not JSON")


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise SchemaError(f"a number of the schema has more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def _check_values(schema: Any) -> None:
    """Walks without recursion: an object that came parsed may be as deep as it likes."""
    count = 0
    waiting: list[tuple[Any, str, int]] = [(schema, "#", 0)]
    while waiting:
        value, path, depth = waiting.pop()
        count += 1
        if count > MAX_JSON_VALUES:
            raise SchemaError(f"the schema has more than {MAX_JSON_VALUES} values")
        if depth > MAX_NESTING:
            raise SchemaError(_TOO_DEEP)
        if isinstance(value, dict):
            for name in value:
                if not isinstance(name, str):
                    raise SchemaError("a member's name is not text", path)
                _check_text(name, path)
            waiting.extend((item, pointer(path, name), depth + 1) for name, item in value.items())
        elif isinstance(value, list):
            waiting.extend((item, pointer(path, index), depth + 1) for index, item in enumerate(value))
        else:
            _check_scalar(value, path)


def _check_scalar(value: Any, path: str) -> None:
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise SchemaError("the number is beyond what a double holds", path)
    elif isinstance(value, int):
        if value.bit_length() > 4 * MAX_INTEGER_DIGITS:
            raise SchemaError(f"the number has more than {MAX_INTEGER_DIGITS} digits", path)
    else:
        raise SchemaError("the value is not JSON", path)


def _check_text(text: str, path: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise SchemaError("the text holds a lone surrogate, which is no character; write the pair, or remove it", path)
