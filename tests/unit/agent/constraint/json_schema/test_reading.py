"""agent/constraint/json_schema: what is read, what is refused, and with which path. Both drafts."""

import json
from typing import Any

import pytest

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema import OPTIONS, prepare_schema

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def refused_path(schema: Any) -> str:
    with pytest.raises(SchemaError) as refused:
        prepare_schema(schema)
    return refused.value.path


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "strin"}, "#/type"),
        ({"type": []}, "#/type"),
        ({"type": ["string", 1]}, "#/type"),
        ({"minLength": -1}, "#/minLength"),
        ({"minLength": "3"}, "#/minLength"),
        ({"maxItems": True}, "#/maxItems"),
        ({"maxItems": 1.5}, "#/maxItems"),
        ({"minItems": 10**12}, "#/minItems"),
        ({"minimum": "1"}, "#/minimum"),
        ({"exclusiveMinimum": "1"}, "#/exclusiveMinimum"),
        ({"multipleOf": 0}, "#/multipleOf"),
        ({"multipleOf": -2}, "#/multipleOf"),
        ({"pattern": 5}, "#/pattern"),
        ({"pattern": "("}, "#/pattern"),
        ({"format": 5}, "#/format"),
        ({"enum": "a"}, "#/enum"),
        ({"required": "a"}, "#/required"),
        ({"required": [1]}, "#/required"),
        ({"properties": []}, "#/properties"),
        ({"properties": {"a": 5}}, "#/properties/a"),
        ({"properties": {"a": {"properties": {"b/c": {"type": "x"}}}}}, "#/properties/a/properties/b~1c/type"),
        ({"patternProperties": {"(": {}}}, "#/patternProperties/("),
        ({"additionalProperties": "no"}, "#/additionalProperties"),
        ({"items": "x"}, "#/items"),
        ({"items": [1]}, "#/items/0"),
        ({"prefixItems": {}}, "#/prefixItems"),
        ({"anyOf": []}, "#/anyOf"),
        ({"oneOf": {}}, "#/oneOf"),
        ({"allOf": [{"type": "y"}]}, "#/allOf/0/type"),
        ({"not": 1}, "#/not"),
        ({"if": 1, "then": {}}, "#/if"),
        ({"uniqueItems": "yes"}, "#/uniqueItems"),
        ({"$ref": 5}, "#/$ref"),
        ({"dependentRequired": {"a": ["b", 1]}}, "#/dependentRequired"),
        # What a validator of today would ignore, and so would the library.
        ({"x-guidance": {"lenient": True}}, "#/x-guidance"),
        ({"properties": {"a": {"x-guidance": {}}}}, "#/properties/a/x-guidance"),
        ({"divisibleBy": 2}, "#/divisibleBy"),
        ({"extends": {}}, "#/extends"),
        ({"disallow": "string"}, "#/disallow"),
        ({"type": "string", "nullable": True}, "#/nullable"),
        ({"properties": {"a": {"required": True}}}, "#/properties/a/required"),
        ({"$recursiveRef": "#"}, "#/$recursiveRef"),
        # What cannot be enforced.
        ({"type": "array", "items": STRING, "uniqueItems": True}, "#"),
        ({"properties": {"a": {"type": "array", "contains": STRING}}}, "#/properties/a"),
        ({"type": "array", "contains": STRING, "minContains": 2, "maxItems": 4}, "#"),
        ({"type": "object", "minProperties": 2}, "#"),
        ({"properties": {"a": {"not": INTEGER, "type": "number"}}}, "#/properties/a"),
        ({"type": "object", "not": {"additionalProperties": STRING}}, "#/not"),
        ({"const": "\x00"}, "#"),
        ({"properties": {"a": {"enum": ["x", {"k": ["\x7f"]}]}}}, "#/properties/a"),
        ({"properties": {"\x01": {}}}, "#"),
        ({"unevaluatedProperties": False, "anyOf": [{"properties": {"a": {}}}]}, "#"),
        ({"type": "string", "not": {"format": "regex"}}, "#/not"),
    ],
)
def test_what_is_wrong_or_cannot_be_enforced_is_refused_with_its_path(schema: Any, path: str) -> None:
    assert refused_path(schema) == path


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"enum": []},
        {"not": {}},
        {"allOf": [STRING, INTEGER]},
        {"type": "integer", "minimum": 5, "maximum": 1},
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "integer", "minimum": 1, "maximum": 4, "multipleOf": 5},
        {"type": "number", "minimum": 1, "exclusiveMaximum": 1},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "string", "pattern": "^a$", "minLength": 2, "maxLength": 9},
        {"type": "string", "allOf": [{"pattern": "^a+$"}, {"pattern": "^b+$"}]},
        {"type": "array", "minItems": 3, "maxItems": 1},
        {"type": "array", "prefixItems": [False], "minItems": 1},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "object", "required": ["a"], "additionalProperties": False},
        {"type": "object", "propertyNames": {"pattern": "^b"}, "required": ["a"]},
        {"type": "object", "required": ["a", "b"], "maxProperties": 1},
        {"const": 1, "type": "string"},
        {"enum": [{"a": 1}], "required": ["b"]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}},
         "required": ["b"]}, "b": {"type": "array", "prefixItems": [{"$ref": "#/$defs/a"}], "minItems": 1}}},
        {"oneOf": [STRING, STRING]},
    ],
)  # fmt: skip
def test_unsatisfiable_schemas_are_refused(schema: Any) -> None:
    text = "false" if schema is False else schema
    with pytest.raises(SchemaError, match="unsatisfiable"):
        prepare_schema(text)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"$ref": "#"}, "#"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "#/$defs/a"),
        ({"anyOf": [STRING, {"$ref": "#"}]}, "#"),
        ({"not": {"$ref": "#"}}, "#"),
    ],
)
def test_references_that_lead_back_for_the_same_value_are_refused(schema: dict[str, Any], path: str) -> None:
    with pytest.raises(SchemaError, match="refers to itself"):
        prepare_schema(schema)
    assert refused_path(schema) == path


def test_what_can_never_be_there_is_taken_out() -> None:
    endless = {"type": "object", "properties": {"n": {"$ref": "#/$defs/endless"}}, "required": ["n"]}
    schema = {"type": "object", "properties": {"a": INTEGER, "e": {"$ref": "#/$defs/endless"}}}
    assert prepare_schema({**schema, "$defs": {"endless": endless}}) == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "e": False},
    }
    assert prepare_schema({"anyOf": [INTEGER, {"$ref": "#/$defs/endless"}], "$defs": {"endless": endless}}) == INTEGER


def test_annotations_and_unknown_words_say_nothing() -> None:
    words = {
        "title": "t", "description": "d", "default": 1, "examples": [], "$comment": "c", "deprecated": True,
        "readOnly": True, "contentEncoding": "base64", "contentSchema": {"type": "x"}, "discriminator": {"a": 1},
        "format": "int32", "nullable": False, "x-own": {"type": "x"}, "example": 1, "$vocabulary": {},
    }  # fmt: skip
    assert prepare_schema({"type": "integer", **words}) == INTEGER
    assert prepare_schema(words) == {}
    assert prepare_schema({"type": ["string", "null"], "nullable": True}) == {"type": ["null", "string"]}


def test_members_may_have_the_names_of_keywords() -> None:
    schema = {"type": "object", "properties": {"$ref": STRING, "x-guidance": INTEGER, "type": STRING, "not": STRING}}
    assert prepare_schema(schema) == schema


@pytest.mark.parametrize(
    ("schema", "same"),
    [
        ({"$schema": DRAFT_7, "items": [STRING], "additionalItems": False}, {"prefixItems": [STRING], "items": False}),
        ({"items": [STRING]}, {"prefixItems": [STRING]}),
        ({"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": False}, {"minimum": 1}),
        ({"dependencies": {"a": ["b"]}}, {"dependentRequired": {"a": ["b"]}}),
        ({"dependencies": {"a": STRING}}, {"dependentSchemas": {"a": STRING}}),
        ({"const": 1}, {"enum": [1]}),
        ({"minimum": 1, "exclusiveMinimum": 1}, {"exclusiveMinimum": 1}),
        ({"multipleOf": 1}, {"anyOf": [INTEGER, {"type": ["null", "boolean", "string", "array", "object"]}]}),
        ({"enum": [1, 1.0, True]}, {"enum": [1, True]}),
        ({"additionalItems": False}, {}),
        ({"then": STRING}, {}),
        ({"minContains": 2}, {}),
    ],
)
def test_older_spellings_mean_the_same(schema: dict[str, Any], same: dict[str, Any]) -> None:
    def flat(prepared: dict[str, Any]) -> Any:
        types = {"null", "boolean", "integer", "string", "array", "object"}
        if prepared in ({"type": sorted(types)}, {"anyOf": [INTEGER, {"type": sorted(types - {"integer"})}]}):
            return types
        kinds = prepared.get("type")
        return types if isinstance(kinds, list) and set(kinds) == types else prepared.get("anyOf", prepared)

    if "multipleOf" in schema:
        assert set(prepare_schema(schema)["type"]) == {"null", "boolean", "integer", "string", "array", "object"}
    else:
        assert flat(prepare_schema(schema)) == flat(prepare_schema(same))


def test_siblings_of_a_reference() -> None:
    schema = {"$ref": "#/definitions/a", "maxLength": 1, "definitions": {"a": STRING}}
    assert prepare_schema({"$schema": DRAFT_7, **schema}) == STRING
    assert prepare_schema(schema) == {"type": "string", "maxLength": 1}


@pytest.mark.parametrize(
    ("schema", "key", "value"),
    [
        ({"type": "integer", "maximum": 2**64 - 1}, "maximum", 2**63 - 1024),
        ({"type": "integer", "maximum": 2**63 - 1025}, "maximum", 2**63 - 2048),
        ({"type": "integer", "minimum": 2**53 + 1}, "minimum", 2**53 + 2),
        ({"type": "integer", "maximum": 2**53 + 1}, "maximum", 2**53),
        ({"type": "integer", "minimum": -(2**53) - 1}, "minimum", -(2**53)),
        ({"type": "number", "maximum": 3.4e38}, "maximum", 2**53),
        ({"type": "number", "minimum": -1.7e308}, "minimum", -(2**53)),
        ({"type": "number", "minimum": 0.1}, "minimum", 0.1),
    ],
)
def test_bounds_that_are_no_doubles_are_drawn_in(schema: dict[str, Any], key: str, value: Any) -> None:
    assert prepare_schema(schema) == {**schema, key: value}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 2**70},
        {"type": "number", "minimum": 2**53 + 1},
        {"type": "number", "minimum": 0.12345678901234567},
        {"type": "number", "multipleOf": 2**40},
        {"type": "integer", "multipleOf": 1_000_003},
        {"type": "number", "multipleOf": 1e-10},
        {"const": 2**53 + 1},
        {"enum": ["a", [{"k": 123456789.12345679}]]},
        {"const": 1e300},
    ],
)
def test_numbers_that_the_library_takes_for_others_are_refused(schema: dict[str, Any]) -> None:
    assert refused_path(schema) == "#"


def test_the_options_close_what_the_library_leaves_open() -> None:
    assert OPTIONS["whitespace_flexible"] is False
    assert "u" not in OPTIONS["json_allowed_escapes"]
    assert OPTIONS["lenient"] is False
    assert OPTIONS["coerce_one_of"] is False


def test_the_schema_of_the_client_is_left_as_it_is() -> None:
    schema = {
        "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}}, "b": {"enum": [{"k": [1]}, 2]}},
        "oneOf": [{"$ref": "#/$defs/a"}, {"not": {"type": ["array", "object"]}}],
    }
    before = json.dumps(schema)
    prepared = prepare_schema(schema)
    assert json.dumps(schema) == before
    assert prepare_schema(before) == prepared
    assert prepare_schema(schema) == prepared


_NEVER = {"type": "integer", "minimum": 5, "maximum": 1}
_SHORT = {"type": "array", "minItems": 3, "maxItems": 1}


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (_NEVER, "#"),
        ({"type": "object", "properties": {"o": False, "a": _NEVER}, "required": ["a"]}, "#/properties/a"),
        ({"type": "object", "properties": {"o": _SHORT, "a": _NEVER}, "required": ["o", "a"]}, "#"),
        ({"type": "array", "items": _NEVER, "minItems": 1}, "#/items"),
        (
            {"$defs": {"A": _NEVER}, "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]},
            "#/$defs/A",
        ),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "#"),
    ],
)
def test_what_makes_a_schema_unsatisfiable_is_named(schema: Any, path: str) -> None:
    assert refused_path(schema) == path
