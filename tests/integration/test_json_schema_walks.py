"""JSON schemas over a real vocabulary: whatever tokens are chosen among those allowed, the output is valid.

`jsonschema` judges by the schema that the client sent; the constraint is made of the one that we prepared.
"""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema import prepare_schema
from tests.support import budgets
from tests.support.constraint_walk import WalkVocabulary, accepts, compiled, walk
from tests.support.json_schema_judge import judge
from tests.support.json_schema_strategies import KEYWORDS, PAIRS, SCALARS, keywords_in, schemas
from tests.support.tokenizer_forms import demo_vocabulary

# llguidance's adapter asks llama.cpp by an older name of a function.
pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated:DeprecationWarning"),
]

WALKS_OF_EACH = 4
# No schema lets these be written: another spelling of a character, white space, what is no JSON.
NEVER = (
    '{"\\u0061":"s"}', '{"a":1,"\\u0061":"s"}', '"\\u0061"', '"\\ud800"', '"a\nb"', '{"a": 1}', "[1, 2]", " 1", "1 ",
    "01", "-01", "1.", "+1", '{"b\\/a":1}', '"\\/"', '{"a":1,}', "[1,]", "'a'", "True", "NaN",
)  # fmt: skip
# A lax constraint would take these for schemas that they break: members twice, escapes that a class leaves out.
NEAR_MISSES = (
    '{"a":1,"a":"s"}', '{"a":1,"a":2}', '{"b":"s","a":1}', '"\\""', '"\\\\"', "1e2", "1.0", "-0", "{}", "[]", '{"a":1}',
    '["a","a"]', '{"q\\"":1}', '{"b\\\\":1}', '"2023-02-29"',
)  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary() -> WalkVocabulary:
    opened = demo_vocabulary()
    return WalkVocabulary.of(opened.form, opened.vocabulary.end_of_generation_tokens)


def test_random_walks_end_in_valid_text(vocabulary: WalkVocabulary) -> None:
    """Hundreds of walks in the short form, thousands in the long one, each keyword in one of twenty schemas or more."""
    seen: Counter[str] = Counter()
    walks: Counter[str] = Counter()
    form = budgets.current()

    for pair in PAIRS:

        @settings(
            max_examples=max(3, form.hypothesis_examples // 40),
            phases=[Phase.generate],  # making examples smaller takes minutes here
            derandomize=form.form == "short",
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(schemas(pair), st.integers(0, 2**32))
        def check(schema: dict[str, Any], start: int) -> None:
            seen.update(["examples", *keywords_in(schema)])
            _walk_and_judge(vocabulary, schema, Random(start), walks)

        check()
    assert [word for word in KEYWORDS if seen[word] < 0.05 * seen["examples"]] == []
    assert walks["valid"] > 1.2 * seen["examples"], walks
    assert walks["given up"] < 0.05 * seen["examples"], walks
    # Long texts come of patterns that want a certain letter before the end.
    assert walks["not ended"] < 0.05 * walks["valid"], walks


def _walk_and_judge(vocabulary: WalkVocabulary, schema: dict[str, Any], choose: Random, walks: Counter[str]) -> None:
    try:
        prepared = prepare_schema(schema)
    except SchemaError:
        return
    try:
        matcher = compiled(vocabulary, prepared)
    except ValueError as refused:
        # It gives up on patterns that it would have to compare for long. That is a refusal too.
        if "determine" not in str(refused):
            raise
        walks["given up"] += 1
        return
    validator = judge(schema)
    for _ in range(WALKS_OF_EACH):
        written = walk(vocabulary, matcher, choose)
        if written is None:
            walks["not ended"] += 1
            continue
        assert validator.is_valid(json.loads(written)), f"{json.dumps(schema)} let {written!r} be written"
        walks["valid"] += 1
    scalars = [json.dumps(value, ensure_ascii=False) for value in SCALARS]
    for text in (*scalars, *NEAR_MISSES):
        if accepts(vocabulary, matcher, text):
            value = json.loads(text)
            assert validator.is_valid(value), f"{json.dumps(schema)} lets {text!r} be written"
    assert [text for text in NEVER if accepts(vocabulary, matcher, text)] == [], json.dumps(schema)
