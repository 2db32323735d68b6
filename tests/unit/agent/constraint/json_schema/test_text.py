"""agent/constraint/json_schema/text.py: a schema is strict JSON of bounded size, or it is refused."""

import json
from typing import Any

import pytest

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.limits import MAX_JSON_VALUES, MAX_NESTING, MAX_TEXT_CHARACTERS
from agent.constraint.json_schema.preparation import prepare_schema
from agent.constraint.json_schema.text import pointer, read_schema


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "not JSON"),
        ("nonsense", "line 1, column 1"),
        ('{"type": "string",}', "not JSON"),
        ("{'type': 'string'}", "not JSON"),
        ('{"minimum": NaN}', "NaN"),
        ('{"minimum": -Infinity}', "-Infinity"),
        ('{"minimum": 1e999}', "double"),
        ('{"minimum": ' + "9" * 5_000 + "}", "digits"),
        ('{"const": "\\ud800"}', "surrogate.*write the pair"),
        ('{"\\udfff": 1}', "surrogate"),
        ('{"type": "string", "type": "integer"}', "'type' twice"),
        ('{"properties": {"a": {}, "\\u0061": {}}}', "'a' twice"),
        ("[1]", "object, true or false"),
        ('"string"', "object, true or false"),
        ("null", "object, true or false"),
    ],
)
def test_text_that_is_no_strict_json_schema_is_refused(text: str, word: str) -> None:
    with pytest.raises(SchemaError, match=word):
        read_schema(text)


def test_plain_schemas_are_read() -> None:
    assert read_schema(' {"type": "string"} ') == {"type": "string"}
    assert read_schema("true") is True
    assert read_schema({"const": "\U0001f600"}) == {"const": "\U0001f600"}


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_sixty_thousand_levels_of_text_are_a_clean_refusal(opening: str) -> None:
    with pytest.raises(SchemaError, match="deeper than"):
        read_schema(opening * 60_000)


def test_brackets_in_strings_are_not_levels() -> None:
    assert read_schema(json.dumps({"const": "[" * 1_000 + '"\\'})) == {"const": "[" * 1_000 + '"\\'}


def test_sixty_thousand_levels_of_objects_are_a_clean_refusal() -> None:
    schema: dict[str, Any] = {}
    for _ in range(60_000):
        schema = {"not": schema}
    with pytest.raises(SchemaError, match="deeper than"):
        read_schema(schema)
    while schema:  # so that no destructor recurses either
        schema = schema["not"]


def test_size_is_bounded() -> None:
    assert read_schema({"enum": [[0]] * 10}) == {"enum": [[0]] * 10}
    nested: Any = 1
    for _ in range(MAX_NESTING):
        nested = [nested]
    with pytest.raises(SchemaError, match="deeper than"):
        read_schema({"const": nested})
    with pytest.raises(SchemaError, match="values"):
        read_schema({"enum": [0] * MAX_JSON_VALUES})
    with pytest.raises(SchemaError, match="characters"):
        read_schema('"' + "x" * MAX_TEXT_CHARACTERS + '"')


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", (1,), 10**500, {1: 2}, "\ud800"])
def test_python_values_that_are_no_json_are_refused_with_their_path(value: Any) -> None:
    with pytest.raises(SchemaError, match=r"^#/a~1b/0"):
        read_schema({"a/b": [value]})


def test_pointers_escape_their_tokens() -> None:
    assert pointer("#", "a/b", "~", 0) == "#/a~1b/~0/0"


def test_the_wrapper_of_a_response_format_is_not_taken_for_a_schema() -> None:
    wrapped = {"name": "answer", "strict": True, "schema": {"type": "integer"}}
    with pytest.raises(SchemaError, match="send the value of its member 'schema'"):
        prepare_schema(wrapped)


def test_an_unknown_word_schema_beside_others_is_skipped() -> None:
    assert prepare_schema({"type": "object", "properties": {"a": {"const": 1}}, "schema": {}})
