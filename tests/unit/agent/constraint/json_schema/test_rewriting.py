"""Rewriting: what is written for what, and how much of it. That it means the same is tests/integration's business."""

import json
from typing import Any

import pytest

from agent.constraint.json_schema import prepare_schema

STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}


def members(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "prepared"),
    [
        (members(a=INTEGER), members(a=INTEGER)),
        ({"anyOf": [STRING, NULL]}, {"anyOf": [STRING, NULL]}),
        ({"oneOf": [STRING, NULL]}, {"anyOf": [STRING, NULL]}),
        ({"not": STRING}, {"type": ["null", "boolean", "number", "array", "object"]}),
        ({"not": {"not": INTEGER}}, INTEGER),
        ({"type": "integer", "not": {"minimum": 3}}, {"type": "integer", "maximum": 2}),
        ({"type": "array", "not": {"minItems": 2}}, {"type": "array", "maxItems": 1}),
        ({"type": "array", "maxItems": 1, "uniqueItems": True}, {"type": "array", "maxItems": 1}),
        ({"type": "array", "items": INTEGER, "contains": {}}, {"type": "array", "items": INTEGER, "minItems": 1}),
        ({"enum": ["a", "ab", 1], "type": "string", "minLength": 2}, {"enum": ["ab"]}),
        ({"enum": [1, 2, 3, "x"], "not": {"const": 2}, "type": "integer"}, {"enum": [1, 3]}),
        ({"allOf": [members(a=INTEGER), {"required": ["a"]}]}, {**members(a=INTEGER), "required": ["a"]}),
        ({"type": "integer", "minimum": 1, "maximum": 4, "not": {"multipleOf": 2}}, {"enum": [1, 3]}),
        ({"type": "integer", "minimum": 0.5, "exclusiveMaximum": 4}, {"type": "integer", "minimum": 1, "maximum": 3}),
        ({**members(a={"not": {}}), "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
        (
            {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True},
            {"enum": [[], [1], [1, 2], [2], [2, 1]]},
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
            {"anyOf": [
                {"type": "object", "properties": {"a": True, "b": False}, "required": ["a"]},
                {"type": "object", "properties": {"b": True, "a": False}, "required": ["b"]},
            ]},
        ),
    ],
)  # fmt: skip
def test_what_is_written(schema: dict[str, Any], prepared: dict[str, Any]) -> None:
    assert prepare_schema(schema) == prepared


KEYWORDS = [
    "enum", "anyOf", "allOf", "oneOf", "not", "const", "type", "properties", "patternProperties", "required", "items",
    "prefixItems", "additionalProperties", "minItems", "pattern", "format", "if", "then", "else", "$ref", "$defs",
    "$id", "$anchor", "definitions", "default", "description", "dependencies", "dependentRequired", "x-guidance",
]  # fmt: skip


@pytest.mark.parametrize("name", KEYWORDS)
def test_a_member_may_have_the_name_of_any_keyword(name: str) -> None:
    choice = {"anyOf": [STRING, {"type": "array", "items": {"$ref": "#"}}]}
    prepared = prepare_schema({**members(**{name: choice}), "required": [name], "additionalProperties": False})
    whole = prepared["$defs"][prepared["$ref"].removeprefix("#/$defs/")]
    (value,) = whole["properties"].values()
    assert [option["type"] for option in value["anyOf"]] == ["string", "array"]
    assert list(whole["properties"]) == whole["required"] == [name]
    json.dumps(prepared)
    patterned = prepare_schema({"type": "object", "patternProperties": {name.strip("$"): choice}})
    json.dumps(patterned)


def test_members_keep_the_order_of_the_schema() -> None:
    schema = {
        "$defs": {"base": members(id=INTEGER, name=STRING)},
        "allOf": [{"$ref": "#/$defs/base"}, members(extra=STRING)],
        "required": ["last", "id"],
    }
    assert list(prepare_schema(schema)["properties"]) == ["last", "id", "name", "extra"]


def test_choices_on_a_member_with_few_values_do_not_multiply() -> None:
    kinds = [f"k{number}" for number in range(12)]
    rules = [{"if": {"properties": {"kind": {"const": kind}}}, "then": {"required": [f"of_{kind}"]}} for kind in kinds]
    schema = {**members(kind={"enum": kinds}), "required": ["kind"], "allOf": rules}
    assert len(prepare_schema(schema)["anyOf"]) == 12


def test_what_is_used_often_is_written_once() -> None:
    item = {**members(**{f"member_{number}": {"type": "integer", "minimum": number} for number in range(20)})}
    schema = {"$defs": {"item": item}, **members(**{f"p{number}": {"$ref": "#/$defs/item"} for number in range(50)})}
    prepared = prepare_schema(schema)
    assert len(prepared["$defs"]) == 1
    assert len(json.dumps(prepared)) < 4_000
