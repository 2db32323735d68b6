"""Bytes of a request body to a strict model, or one plain sentence that says what is wrong and how to mend it.

Pure: no socket, no request. The sentence never holds library text, an address or more of the input than a bounded
field name, since whoever sent the body may not be whoever reads the answer.
"""

from typing import Any, Final, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from balancer.body_outline import BodyOutline, Path, TooManyThings, outline_of
from balancer.json_advice import json_advice
from balancer.validation_sentences import fault_sentences, first_fault

Model = TypeVar("Model", bound=BaseModel)

MAX_NAME_CHARACTERS: Final = 64


class BodyRefused(Exception):
    """The body will not do. `status` is the HTTP status; `is_deserialization`: the fault is in its JSON.

    `field`: the top-level field to blame, if it is one; `fault`: pydantic's word for what is wrong with it.
    """

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        is_deserialization: bool = False,
        field: str | None = None,
        fault: str | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.is_deserialization = is_deserialization
        self.field = field
        self.fault = fault

    @property
    def native_text(self) -> str:
        """The text of Paddler's wire: faults of the JSON carry its prefix, the others stand alone."""
        return f"Json deserialize error: {self.sentence}" if self.is_deserialization else self.sentence


def parse_body(data: bytes, model: type[Model], *, refuse_duplicate_keys: bool = True) -> Model:
    """A validated `model`. Raises BodyRefused(400).

    `refuse_duplicate_keys` concerns the top level: parsers disagree about which of the two counts, so a gateway in
    front of us may have checked the other one. Objects that the model's `OBJECTS_AS_TEXT` names (paths of keys) reach
    it as the very text that the client wrote: parsed and written again, numbers might change.
    """
    as_text: frozenset[Path] = getattr(model, "OBJECTS_AS_TEXT", frozenset())
    outline = _outline(data, as_text)
    document = _load(data)
    keys = outline.keys
    if outline.repeated is not None:
        raise _fault(f"{'.'.join(outline.repeated)}: is given twice; give it once")
    for path, text in outline.texts.items():
        _put_text(document, path, text)
    if refuse_duplicate_keys and len(keys) != len(document):
        raise _fault(f"{_shown(_first_duplicate(keys))}: is given twice; give it once")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        field, fault = first_fault(error)
        sentence = fault_sentences(error, model)[0]
        raise BodyRefused(400, sentence, is_deserialization=True, field=field, fault=fault) from None


def _load(data: bytes) -> dict[str, Any]:
    if not data.strip():
        raise _fault("the body is empty; send a JSON object")
    try:
        # orjson refuses NaN, Infinity, lone surrogates, bytes that are not UTF-8 and more than 1,024 levels. Integers
        # past 64 bits become floats, which no integer field of a strict model takes.
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        advice = json_advice(error.doc, error.pos)
        raise _fault(f"the body is not valid JSON near line {error.lineno}, column {error.colno}; {advice}") from None
    if not isinstance(document, dict):
        raise _fault("the body must be a JSON object")
    return document


def _outline(data: bytes, as_text: frozenset[Path]) -> BodyOutline:
    try:
        return outline_of(data, as_text)
    except TooManyThings as error:
        raise _fault(f"the body holds more than {error.most} strings, lists and objects; send fewer") from None


def _put_text(document: dict[str, Any], path: Path, text: bytes) -> None:
    """Unless another value of the same name came after the object."""
    *parents, name = path
    place: Any = document
    for parent in parents:
        place = place.get(parent) if isinstance(place, dict) else None
    if isinstance(place, dict) and isinstance(place.get(name), dict):
        place[name] = text.decode()


def _first_duplicate(keys: list[bytes]) -> str:
    """Names are compared decoded: `"a"` and `"\\u0061"` are one key."""
    seen: set[str] = set()
    for raw in keys:
        name = str(orjson.loads(raw))
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("there are fewer names than keys, so one is repeated")


def _shown(name: str) -> str:
    """A field name that is safe in a text answer and in a log line."""
    text = "".join(character if character.isprintable() else "?" for character in name[:MAX_NAME_CHARACTERS])
    return text if len(name) <= MAX_NAME_CHARACTERS else f"{text}..."


def _fault(sentence: str) -> BodyRefused:
    return BodyRefused(400, sentence, is_deserialization=True)
