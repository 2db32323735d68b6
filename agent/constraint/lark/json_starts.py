"""What can be said about a JSON document from outside: how it begins, and whether it could go on as a number.

Everything else in compact JSON ends by itself: with its closing bracket, brace or quote, or as a whole word.
"""

from collections.abc import Mapping
from typing import Any

from agent.constraint.languages.code_points import letters
from agent.constraint.lark.alphabet import Alphabet
from agent.constraint.tree import CodePointRanges, JsonDocument

_FIRST_BY_TYPE = {
    "object": "{",
    "array": "[",
    "string": '"',
    "number": "-0123456789",
    "integer": "-0123456789",
    "boolean": "tf",
    "null": "n",
}
_NUMBER_TYPES = ("number", "integer")
_NUMBER = "+-.0123456789eE"

JSON_CLASSES: tuple[CodePointRanges, ...] = (
    letters(_NUMBER),
    *(letters(first) for first in dict.fromkeys(_FIRST_BY_TYPE.values())),
)
"""The classes that an alphabet needs when documents are among the pieces."""


class JsonStarts:
    """Questions about documents; the alphabet was made of JSON_CLASSES too if there are any."""

    def __init__(self, alphabet: Alphabet) -> None:
        self._alphabet = alphabet

    @property
    def number_characters(self) -> int:
        """Those that may stand in a number."""
        return self._alphabet.mask(letters(_NUMBER))

    def first(self, document: JsonDocument) -> int:
        """The characters that it may begin with."""
        mask = 0
        for kind in _types(document.schema):
            mask |= self._alphabet.mask(letters(_FIRST_BY_TYPE[kind]))
        return mask

    def may_be_number(self, document: JsonDocument) -> bool:
        """Whether it may be a number as a whole."""
        return not _types(document.schema).isdisjoint(_NUMBER_TYPES)


def _types(schema: Any) -> frozenset[str]:
    """The types that a value may have, or more: only the plainest ways to say so are looked at."""
    everything = frozenset(_FIRST_BY_TYPE)
    if not isinstance(schema, Mapping):
        return everything
    found = everything
    if "type" in schema:
        named = schema["type"]
        found &= frozenset([named] if isinstance(named, str) else named)
    if "const" in schema:
        found &= _type_of(schema["const"])
    if isinstance(schema.get("enum"), list):
        found &= frozenset[str]().union(*(_type_of(value) for value in schema["enum"]))
    for joined in ("anyOf", "oneOf"):
        if isinstance(schema.get(joined), list):
            found &= frozenset[str]().union(*(_types(option) for option in schema[joined]))
    return found


def _type_of(value: Any) -> frozenset[str]:
    match value:
        case None:
            return frozenset(("null",))
        case bool():
            return frozenset(("boolean",))
        case int() | float():
            return frozenset(_NUMBER_TYPES)
        case str():
            return frozenset(("string",))
        case list():
            return frozenset(("array",))
        case _:
            return frozenset(("object",))
