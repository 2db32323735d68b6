"""Hostile schemas: a clean answer in bounded work, whatever they are made of."""

import contextlib
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema import prepare_schema
from tests.support import budgets
from tests.support.json_schema_strategies import KEYWORDS

# A second on its own; this machine may have others at work.
MOST_SECONDS = 3.0


def chain(length: int, wrap: bool) -> dict[str, Any]:
    def link(number: int) -> dict[str, Any]:
        reference = {"$ref": f"#/$defs/d{number}"}
        return {"type": "object", "properties": {"a": reference}} if wrap else reference

    definitions: dict[str, Any] = {f"d{number}": link(number + 1) for number in range(length)}
    return {"$defs": {**definitions, f"d{length}": {"type": "string"}}, "$ref": "#/$defs/d0"}


REFUSED = {
    "a chain of references": chain(1_000, wrap=False),
    "objects nested through references": chain(1_000, wrap=True),
    "a huge enum": {"enum": [f"v{number}" for number in range(50_000)]},
    "very many properties": {"properties": {f"p{number}": {} for number in range(10_000)}},
    "a product of choices": {
        "allOf": [{"anyOf": [{"required": [f"a{j}{k}"]} for k in range(10)]} for j in range(10)],
    },
    "a power of dependencies": {"type": "object", "dependentRequired": {f"a{k}": [f"b{k}"] for k in range(40)}},
    "many overlapping options": {"oneOf": [{"type": "object", "properties": {f"p{k}": {}}} for k in range(500)]},
    "a complement that explodes": {"type": "string", "not": {"pattern": "(a|b)*a(a|b){14}$"}},
    "nested groups": {"type": "string", "pattern": "(" * 5_000 + ")" * 5_000},
    "many different items": {"type": "array", "items": {"enum": list(range(12))}, "uniqueItems": True},
    "an array of texts too long to exclude": {"not": {"const": "x" * 10_000}, "type": "string"},
}
TAKEN = {
    "objects nested through references": chain(200, wrap=True),
    "a large enum": {"enum": [f"a value of some length, number {number}" for number in range(10_000)]},
    "huge bounds": {"type": "array", "minItems": 10**9, "items": {"type": "string", "maxLength": 10**9}},
    "a pattern that backtracks elsewhere": {"enum": ["a" * 2_000, "a" * 2_000 + "!"], "pattern": "^(a+)+$"},
    "500 options with a discriminator": {
        "oneOf": [{"type": "object", "properties": {"k": {"const": k}}, "required": ["k"]} for k in range(500)],
    },
    "the negation of a large object": {
        "not": {"type": "object", "properties": {f"a{k}": {"type": "string"} for k in range(100)}},
    },
    "many excluded texts": {"type": "string", "not": {"enum": [f"word{k}" for k in range(200)]}},
}


@pytest.mark.parametrize("name", REFUSED)
def test_schemas_that_cost_too_much_are_refused(name: str) -> None:
    started = time.thread_time()
    with pytest.raises(SchemaError) as refused:
        prepare_schema(REFUSED[name])
    assert time.thread_time() - started < MOST_SECONDS
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("name", TAKEN)
def test_large_schemas_of_little_cost_are_taken(name: str) -> None:
    started = time.thread_time()
    assert prepare_schema(TAKEN[name])
    assert time.thread_time() - started < MOST_SECONDS


WORDS = (
    *KEYWORDS, "then", "else", "$defs", "definitions", "$id", "$anchor", "$schema", "$dynamicRef", "$dynamicAnchor",
    "additionalItems", "dependencies", "nullable", "id",
)  # fmt: skip
nonsense = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
    | st.sampled_from(("#", "#/", "#/a", "#/$defs/a", "string", "object", "(", "^a$", "http://[", "draft-07")),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=2 * budgets.current().hypothesis_examples, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from(WORDS), nonsense, min_size=1, max_size=4))
def test_nonsense_is_prepared_or_refused_and_nothing_else(schema: dict[str, Any]) -> None:
    with contextlib.suppress(SchemaError):
        assert isinstance(prepare_schema(schema), dict)
