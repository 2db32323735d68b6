"""The innermost part of a schema that is refused alone, whatever refuses it."""

import json
from typing import Any

import pytest

from agent.constraint.json_schema import path_of_fault

BAD = {"type": "string", "minLength": 77}


def holds_it(part: dict[str, Any]) -> bool:
    """The library's part is played by a number that only the bad schema holds, wherever it may be needed."""
    return "77" in json.dumps(part)


def document(**others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "integer"}, **others}, "additionalProperties": False}


NODE = document(n={"$ref": "#/$defs/n"}, v=BAD)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (BAD, "#"),
        (document(x=BAD), "#/properties/x"),
        (document(x=document(y=BAD)), "#/properties/x/properties/y"),
        (document(x={"type": "array", "items": {"anyOf": [{"type": "null"}, BAD]}}), "#/properties/x/items/anyOf/1"),
        ({**document(x={"$ref": "#/$defs/n"}), "$defs": {"n": NODE}}, "#/$defs/n/properties/v"),
        ({"type": "array", "prefixItems": [{"type": "null"}, BAD]}, "#/prefixItems/1"),
        ({"type": "object", "patternProperties": {"^/~": BAD}}, "#/patternProperties/^~1~0"),
    ],
)
def test_the_path_is_that_of_the_innermost_part(schema: dict[str, Any], path: str) -> None:
    assert path_of_fault(schema, holds_it) == path


def test_where_only_the_whole_is_refused_it_is_the_whole() -> None:
    assert path_of_fault(document(x=BAD), lambda _: False) == "#"


def test_the_search_ends_where_it_is_told_to() -> None:
    asked: list[dict[str, Any]] = []

    def one_question(part: dict[str, Any]) -> bool | None:
        asked.append(part)
        return holds_it(part) if len(asked) < 2 else None

    assert path_of_fault({"type": "array", "items": document(x=BAD)}, one_question) == "#/items"
    assert len(asked) == 2
