"""Five fields, at most one constraint; schemas arrive as they were written (C13)."""

import json
from typing import Any

import pytest

from balancer.body_parsing import parse_body
from balancer.completions_body import CompletionBody
from balancer.completions_dialect import Completion, CompletionLimits, completion_of
from shared.messages_to_agent import ConstraintText
from tests.support.completion_bodies import FLEET, completion, sentence

TAG = {"type": "structural_tag", "format": {"type": "any_text"}}
FORMATS = "response_format must be an object whose type is text, json_object, json_schema or structural_tag"


def schema_format(**inner: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": inner}


@pytest.mark.parametrize(
    ("field", "value", "kind", "text"),
    [
        ("ebnf", 'root ::= "A"', "ebnf", 'root ::= "A"'),
        ("regex", "a+", "regex", "a+"),
        ("json_schema", '{"type": "object"}', "json_schema", '{"type": "object"}'),
        ("json_schema", {"type": "object"}, "json_schema", '{"type": "object"}'),
        ("json_schema", "$$ANY$$", "json_schema", "{}"),
        ("structural_tag", TAG, "structural_tag", json.dumps(TAG)),
        ("structural_tag", json.dumps(TAG), "structural_tag", json.dumps(TAG)),
        ("response_format", {"type": "json_object"}, "json_schema", '{"type":"object"}'),
        (
            "response_format",
            schema_format(name="x", strict=True, schema={"type": "integer"}),
            "json_schema",
            '{"type": "integer"}',
        ),
        ("response_format", schema_format(schema=False), "json_schema", "false"),
        ("response_format", TAG, "structural_tag", json.dumps(TAG)),
    ],
)
def test_each_way_to_say_it(field: str, value: Any, kind: str, text: str) -> None:
    found = completion(**{field: value})
    assert found.request.constraint == ConstraintText(kind=kind, text=text)
    assert found.constraint_field == field


@pytest.mark.parametrize("fields", [{}, {"regex": ""}, {"json_schema": ""}, {"response_format": {"type": "text"}}])
def test_no_constraint(fields: dict[str, Any]) -> None:
    found = completion(**fields)
    assert (found.request.constraint, found.constraint_field) == (None, None)


def test_numbers_of_a_schema_are_those_that_were_written() -> None:
    inner = b'{"model":"m","prompt":[1],"response_format":{"type":"json_schema","json_schema":{"schema":{"a": 1.00}}}}'
    found = completion_of(parse_body(inner, CompletionBody), "r", 1, CompletionLimits(), FLEET)
    assert isinstance(found, Completion)
    assert found.request.constraint == ConstraintText(kind="json_schema", text='{"a": 1.00}')
    outer = parse_body(b'{"model":"m","prompt":[1],"json_schema":{"a": 1.00}}', CompletionBody)
    assert outer.json_schema == '{"a": 1.00}'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"type": "yaml"}, FORMATS),
        ({}, FORMATS),
        ({"type": "json_schema", "json_schema": None}, "response_format.json_schema must be an object with a schema"),
        (
            {"type": "json_schema", "schema": {"type": "object"}},
            "response_format: one of its fields is not known; it may have json_schema, type",
        ),
        (schema_format(name="x", strict=True), "response_format.json_schema.schema must be an object"),
        (schema_format(schema="x"), "response_format.json_schema.schema must be an object"),
        (
            schema_format(schema={}, more=1),
            "response_format.json_schema: one of its fields is not known; "
            "it may have description, name, schema, strict",
        ),
        ({"type": "text", "x": 1}, "response_format: one of its fields is not known; it may have type"),
    ],
)
def test_a_response_format_that_says_nothing_clear_is_refused(value: Any, words: str) -> None:
    assert sentence(response_format=value) == (words, "response_format")


def test_a_constraint_over_the_limit_blames_its_field() -> None:
    words, field = sentence(regex="a" * (1024 * 1024 + 1))
    assert field == "regex"
    assert "1048576 bytes" in words
