"""Bytes of a request body to a strict model, or one plain sentence that says what is wrong and how to mend it.

Pure: no socket, no request. The sentence never holds library text, an address or more of the input than a bounded
field name, since whoever sent the body may not be whoever reads the answer.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from balancer.validation_sentences import fault_sentences

Model = TypeVar("Model", bound=BaseModel)

MAX_NAME_CHARACTERS: Final = 64


class BodyRefused(Exception):
    """The body will not do. `status` is the HTTP status; `is_deserialization`: the fault is in its JSON."""

    def __init__(self, status: int, sentence: str, *, is_deserialization: bool = False) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.is_deserialization = is_deserialization

    @property
    def native_text(self) -> str:
        """The text of Paddler's wire: faults of the JSON carry its prefix, the others stand alone."""
        return f"Json deserialize error: {self.sentence}" if self.is_deserialization else self.sentence


def parse_body(data: bytes, model: type[Model], *, refuse_duplicate_keys: bool = True) -> Model:
    """A validated `model`. Raises BodyRefused(400).

    `refuse_duplicate_keys` concerns the top level: parsers disagree about which of the two counts, so a gateway in
    front of us may have checked the other one.
    """
    document = _load(data)
    if refuse_duplicate_keys:
        name = _duplicate_top_level_key(data, len(document))
        if name is not None:
            raise _fault(f"{_shown(name)}: is given twice; give it once")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise _fault(fault_sentences(error)[0]) from None


def _load(data: bytes) -> dict[str, Any]:
    if not data.strip():
        raise _fault("the body is empty; send a JSON object")
    try:
        # orjson refuses NaN, Infinity, lone surrogates, bytes that are not UTF-8 and more than 1,024 levels. Integers
        # past 64 bits become floats, which no integer field of a strict model takes.
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _fault(
            f"the body is not valid JSON near line {error.lineno}, column {error.colno}; "
            "send UTF-8 text with whole surrogate pairs, finite numbers and no trailing commas"
        ) from None
    if not isinstance(document, dict):
        raise _fault("the body must be a JSON object")
    return document


# --- duplicate keys -------------------------------------------------------------------------------------------------

_STRUCTURE: Final = re.compile(rb'["\[\]{}]')
_COLON: Final = re.compile(rb"[ \t\r\n]*:")


def _duplicate_top_level_key(data: bytes, distinct_keys: int) -> str | None:
    """The first name that stands twice in the outermost object of valid JSON; orjson keeps the last and says nothing.

    Names are compared decoded: `"a"` and `"\\u0061"` are one key.
    """
    keys = list(_top_level_keys(data))
    if len(keys) == distinct_keys:
        return None
    seen: set[str] = set()
    for raw in keys:
        name = str(orjson.loads(raw))
        if name in seen:
            return name
        seen.add(name)
    return None


def _top_level_keys(data: bytes) -> Iterator[bytes]:
    """Raw JSON strings before a colon at depth one. Long strings and number lists are passed over by C code."""
    depth = position = 0
    while (found := _STRUCTURE.search(data, position)) is not None:
        position = found.end()
        character = found.group()
        if character == b'"':
            start = found.start()
            position = _end_of_string(data, position)
            if depth == 1 and _COLON.match(data, position):
                yield data[start:position]
        else:
            depth += 1 if character in b"[{" else -1


def _end_of_string(data: bytes, position: int) -> int:
    """One past the quote that closes the string whose content begins at `position`."""
    while True:
        quote = data.index(b'"', position)
        content_end = quote
        while content_end > position and data[content_end - 1] == 0x5C:  # a backslash
            content_end -= 1
        if (quote - content_end) % 2 == 0:
            return quote + 1
        position = quote + 1


def _shown(name: str) -> str:
    """A field name that is safe in a text answer and in a log line."""
    text = "".join(character if character.isprintable() else "?" for character in name[:MAX_NAME_CHARACTERS])
    return text if len(name) <= MAX_NAME_CHARACTERS else f"{text}..."


def _fault(sentence: str) -> BodyRefused:
    return BodyRefused(400, sentence, is_deserialization=True)
