"""evaluation.py, negation.py and values.py of agent/constraint/json_schema: whether one value satisfies a schema."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.evaluation import Evaluation
from agent.constraint.json_schema.limits import Work
from agent.constraint.json_schema.negation import Negation
from agent.constraint.json_schema.reading import read_keywords
from agent.constraint.json_schema.subschemas import Subschemas
from agent.constraint.json_schema.values import exact, key_of, texts_in, type_of
from tests.support import budgets
from tests.support.json_schema_judge import judge
from tests.support.json_schema_strategies import PAIRS, schemas, values


@settings(
    max_examples=budgets.current().hypothesis_examples // 2, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(st.sampled_from(PAIRS).flatmap(schemas), st.lists(values, min_size=3, max_size=3))
def test_evaluation_agrees_with_the_judge(schema: dict[str, Any], drawn: list[Any]) -> None:
    subschemas = Subschemas(schema, read_keywords)
    evaluation, validator = Evaluation(subschemas), judge(schema)
    for value in drawn:
        try:
            found = evaluation.holds(subschemas.root, value)
        except SchemaError:
            return
        assert found == validator.is_valid(value), value


@settings(
    max_examples=budgets.current().hypothesis_examples // 2, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(st.sampled_from(PAIRS).flatmap(schemas), values)
def test_a_value_fails_a_schema_exactly_when_it_satisfies_an_alternative(schema: dict[str, Any], value: Any) -> None:
    subschemas = Subschemas(schema, read_keywords)
    evaluation, negation = Evaluation(subschemas), Negation(subschemas)
    try:
        for number in subschemas.root:
            fails = not evaluation.holds((number,), value)
            alternatives = negation.alternatives(number)
            assert any(evaluation.holds(alternative, value) for alternative in alternatives) == fails
    except SchemaError:
        return


def test_values_are_equal_as_json_says() -> None:
    assert key_of(1) == key_of(1.0)
    assert key_of(True) != key_of(1)
    assert key_of(None) != key_of(False)
    assert key_of("1") != key_of(1)
    assert key_of({"a": 1, "b": [True]}) == key_of({"b": [True], "a": 1.0})
    assert key_of([1, 2]) != key_of([2, 1])
    assert key_of([]) != key_of({})


def test_numbers_are_what_is_written() -> None:
    assert exact(0.1) * 10 == 1
    assert exact(2**70) == 2**70
    assert (type_of(1.0), type_of(0.5), type_of(True)) == ("integer", "fraction", "boolean")


def test_texts_are_found_everywhere() -> None:
    assert sorted(texts_in({"a": ["b", {"c": "d"}], "e": 1})) == ["a", "b", "c", "d", "e"]


def test_work_is_counted_across_the_whole_preparation() -> None:
    work = Work(10)
    work.take(10, "#")
    with pytest.raises(SchemaError, match="too many"):
        work.take(1, "#/a")
