"""Rewriting keeps what a schema means. The judge is `jsonschema`: the same verdict before and after, on any value."""

import json
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema import prepare_schema
from tests.support import budgets
from tests.support.json_schema_judge import judge
from tests.support.json_schema_strategies import KEYWORDS, PAIRS, SCALARS, keywords_in, schemas, values

ALWAYS: tuple[Any, ...] = (
    *SCALARS, [], ["a"], ["a", "a"], [1, 2], [1, 1], [None, "b", 1], {}, {"a": 1}, {"a": "a"}, {"a": "a", "b": "b"},
    {"b": 1, "ab": "ba"}, {"a": None, "b": 1, "ab": 2}, {'q"': 1}, {"a": 1, 'q"': "b"},
)  # fmt: skip
# What the library enforces exactly, by its sources and by measurement.
ENFORCED = frozenset({
    "type", "enum", "anyOf", "allOf", "$ref", "$defs", "properties", "required", "additionalProperties",
    "patternProperties", "minProperties", "maxProperties", "items", "prefixItems", "minItems", "maxItems", "minLength",
    "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
})  # fmt: skip


def words_of(prepared: Any) -> set[str]:
    """The keywords that a prepared schema uses."""
    if not isinstance(prepared, dict):
        return set()
    found = set(prepared)
    for key, value in prepared.items():
        if key in ("properties", "patternProperties", "$defs"):
            found |= {word for member in value.values() for word in words_of(member)}
        elif isinstance(value, list) and key not in ("enum", "required", "type"):
            found |= {word for member in value for word in words_of(member)}
        elif isinstance(value, dict):
            found |= words_of(value)
    return found


def verdicts(schema: Any, instances: list[Any]) -> list[bool]:
    validator = judge(schema)
    return [bool(validator.is_valid(instance)) for instance in instances]


def test_a_value_is_valid_before_exactly_when_it_is_after() -> None:
    """In the short form always the same examples; in the long one others each time. No keyword is rare in them."""
    seen: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    form = budgets.current()

    for pair in PAIRS:

        @settings(
            max_examples=max(4, form.hypothesis_examples // 16),
            phases=[Phase.generate],  # making examples smaller takes minutes here
            derandomize=form.form == "short",
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(schemas(pair), st.lists(values, min_size=4, max_size=4))
        def check(schema: dict[str, Any], drawn: list[Any]) -> None:
            seen.update(["examples", *keywords_in(schema)])
            outcomes[_checked(schema, [*ALWAYS, *drawn])] += 1

        check()
    assert [word for word in KEYWORDS if seen[word] < 0.05 * seen["examples"]] == []
    assert outcomes["prepared"] > 0.4 * seen["examples"], outcomes
    assert outcomes["unsatisfiable"] > 0, outcomes


def _checked(schema: dict[str, Any], instances: list[Any]) -> str:
    before = verdicts(schema, instances)
    try:
        prepared = prepare_schema(schema)
    except SchemaError as refused:
        if "unsatisfiable" not in str(refused):
            return "refused"
        assert not any(before), f"{json.dumps(schema)} has a valid value"
        return "unsatisfiable"
    after = verdicts(prepared, instances)
    different = [value for value, was, now in zip(instances, before, after, strict=True) if was != now]
    assert different == [], f"{json.dumps(schema)} became {json.dumps(prepared)}"
    assert words_of(prepared) <= ENFORCED
    assert prepare_schema(json.dumps(schema)) == prepared
    return "prepared"
