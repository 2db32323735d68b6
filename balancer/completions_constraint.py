"""The constraint of a completion: at most one of five fields, in SGLang's words. Pure.

Objects reach this module as the text that the client wrote (`OBJECTS_AS_TEXT`), so that no number of a schema changes.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from balancer.body_outline import TooManyThings, outline_of
from balancer.constraint_request import ConstraintKind, constraint_text
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText

OBJECTS_AS_TEXT: Final = frozenset({("json_schema",), ("structural_tag",), ("response_format",)})
"""For `body_parsing`."""

ANY_OBJECT: Final = '{"type":"object"}'
_ANY_JSON: Final = "$$ANY$$"  # SGLang's word for a schema that allows everything
_FORMATS: Final = "must be an object whose type is text, json_object, json_schema or structural_tag"


@dataclass(frozen=True, slots=True)
class ConstraintFields:
    """As the body gave them; None and "" are unset."""

    ebnf: str | None
    regex: str | None
    json_schema: str | None
    structural_tag: str | None
    response_format: str | None


@dataclass(frozen=True, slots=True)
class NamedConstraint:
    """`field`: which one of the body's; the parameter to blame when an agent refuses it."""

    field: str
    constraint: ConstraintText


def constraint_of(fields: ConstraintFields) -> NamedConstraint | Failure | None:
    """The one constraint, None when there is none, or why they will not do."""
    found: list[tuple[str, ConstraintKind, str]] = []
    kinds: tuple[ConstraintKind, ...] = ("ebnf", "regex", "json_schema", "structural_tag")
    for kind in kinds:
        text: str | None = getattr(fields, kind)
        if text:
            found.append((kind, kind, "{}" if kind == "json_schema" and text == _ANY_JSON else text))
    if fields.response_format is not None:
        wanted = _of_response_format(fields.response_format)
        if isinstance(wanted, Failure):
            return wanted
        if wanted is not None:
            found.append(("response_format", *wanted))
    if not found:
        return None
    if len(found) > 1:
        names = " and ".join(field for field, _, _ in found)
        return _fault(f"{names} are given; at most one constraint can be", found[1][0])
    ((field, kind, text),) = found
    constraint = constraint_text(kind, text)
    if isinstance(constraint, Failure):
        return replace(constraint, parameter=field)
    return NamedConstraint(field, constraint)


def _of_response_format(text: str) -> tuple[ConstraintKind, str] | Failure | None:
    try:
        document: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        document = None
    kind = document.get("type") if isinstance(document, dict) else None
    if kind == "text":
        return _only(document, {"type"}) or None
    if kind == "json_object":
        return _only(document, {"type"}) or ("json_schema", ANY_OBJECT)
    if kind == "json_schema":
        return _only(document, {"type", "json_schema"}) or _of_json_schema(document, text)
    if kind == "structural_tag":
        return "structural_tag", text
    return _fault(f"response_format {_FORMATS}")


def _of_json_schema(document: dict[str, Any], text: str) -> tuple[ConstraintKind, str] | Failure:
    """`strict` is always on here; `name` and `description` are the client's own."""
    inner = document.get("json_schema")
    if not isinstance(inner, dict):
        return _fault("response_format.json_schema must be an object with a schema")
    unknown = _only(inner, {"name", "description", "strict", "schema"}, "response_format.json_schema")
    if unknown is not None:
        return unknown
    schema = inner.get("schema")
    if not isinstance(schema, dict | bool):
        return _fault("response_format.json_schema.schema must be an object")
    if isinstance(schema, bool):
        return "json_schema", "true" if schema else "false"
    try:
        texts = outline_of(text.encode(), [("json_schema", "schema")]).texts
    except TooManyThings as error:
        return _fault(f"response_format holds more than {error.most} strings, lists and objects")
    return "json_schema", texts["json_schema", "schema"].decode()


def _only(document: dict[str, Any], known: set[str], where: str = "response_format") -> Failure | None:
    for name in document:
        if name not in known:
            return _fault(f"{where}: one of its fields is not known; it may have {', '.join(sorted(known))}")
    return None


def _fault(sentence: str, parameter: str = "response_format") -> Failure:
    return Failure(FailureKind.INVALID_REQUEST, sentence, parameter)
