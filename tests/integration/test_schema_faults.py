"""What only the library can tell of a schema is refused with the path of the part that it does not take."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent.constraint.compiler import ConstraintCompiler
from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText
from tests.support.tokenizer_forms import demo_vocabulary

pytestmark = pytest.mark.model
LIMITS = ConstraintLimits(lexer_steps=30_000, answer_seconds=20.0, fault_search_seconds=20.0)
FINE = {"type": "string", "pattern": "^a{5}$"}
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a pattern and lengths": ({"type": "string", "minLength": 100_000, "pattern": "^(ab|cd)*$"}, "contradictions"),
    "a format and lengths": ({"type": "string", "format": "date-time", "minLength": 50}, "contradictions"),
    "a pattern that needs too many states": ({"type": "string", "pattern": "^a{60000}$"}, "too complex"),
    "a pattern that breaks while it is followed": (
        {"type": "string", "pattern": r"^[ab]((\w{0,1000}){0,1000}){0,1000}b$"},
        "too complex",
    ),
    "too many words": ({"enum": [f"word number {n} of many" for n in range(3000)]}, "too complex"),
    "a text that is too long": ({"const": "x" * 40_000}, "too complex"),
}


def place(bad: dict[str, Any], where: str) -> dict[str, Any]:
    required = {"type": "object", "properties": {"fine": FINE, "a/b": {"type": "array", "items": bad, "minItems": 1}}}
    match where:
        case "#/properties/a~1b/items":
            return {**required, "required": ["a/b"]}
        case "#/anyOf/1/prefixItems/1":
            return {"anyOf": [{"type": "integer"}, {"type": "array", "prefixItems": [FINE, bad], "minItems": 2}]}
        case "#/$defs/node/properties/value":
            node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "value": bad}}
            return {"$ref": "#/$defs/node", "$defs": {"node": node}}
        case "#/additionalProperties/patternProperties/^x":
            return {"type": "object", "additionalProperties": {"type": "object", "patternProperties": {"^x": bad}}}
        case _:
            return {"allOf": [{"type": "object", "properties": {"a": bad}}, {"required": ["a"]}]}


@pytest.fixture(scope="module")
def compiler() -> Iterator[ConstraintCompiler]:
    opened = demo_vocabulary()
    ends = tuple(sorted(opened.vocabulary.end_of_generation_tokens))
    compiler = ConstraintCompiler(ConstraintVocabulary(opened.form, opened.vocabulary.size, ends), LIMITS)
    yield compiler
    compiler.close()


def refusal(compiler: ConstraintCompiler, schema: dict[str, Any]) -> str:
    found = compiler.compile(ConstraintText(kind="json_schema", text=json.dumps(schema)))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.GRAMMAR_SYNTAX
    return found.message


@pytest.mark.parametrize(
    ("fault", "where"),
    [
        ("a pattern and lengths", "#/properties/a~1b/items"),
        ("a format and lengths", "#/anyOf/1/prefixItems/1"),
        ("too many words", "#/$defs/node/properties/value"),
        ("a format and lengths", "#/additionalProperties/patternProperties/^x"),
        ("a pattern that needs too many states", "#/allOf/0/properties/a"),
        ("a pattern that breaks while it is followed", "#/allOf/0/properties/a"),
        ("a text that is too long", "#/properties/a~1b/items"),
    ],
)
def test_the_sentence_names_the_innermost_part(compiler: ConstraintCompiler, fault: str, where: str) -> None:
    bad, words = FAULTS[fault]
    message = refusal(compiler, place(bad, where))
    assert message.startswith(f"{where}: ")
    assert words in message


@pytest.mark.parametrize("fault", ["a pattern and lengths", "too many words"])
def test_inside_a_structural_tag_the_path_leads_through_the_tag(compiler: ConstraintCompiler, fault: str) -> None:
    bad, words = FAULTS[fault]
    schemas = [place(FINE, "#/anyOf/1/prefixItems/1"), place(bad, "#/properties/a~1b/items")]
    contents = [{"type": "json_schema", "json_schema": schema} for schema in schemas]
    tags = [{"type": "tag", "begin": f"<{n}>", "content": one, "end": f"</{n}>"} for n, one in enumerate(contents)]
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": tags}}
    found = compiler.compile(ConstraintText(kind="structural_tag", text=json.dumps(tag)))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.GRAMMAR_INITIALIZATION
    assert found.message.startswith("#/format/elements/1/content/json_schema/properties/a~1b/items: ")
    assert words in found.message


def test_without_time_to_look_the_whole_schema_is_named() -> None:
    opened = demo_vocabulary()
    hasty = ConstraintLimits(lexer_steps=30_000, fault_search_seconds=0.0)
    compiler = ConstraintCompiler(ConstraintVocabulary(opened.form, opened.vocabulary.size, (0,)), hasty)
    bad, _ = FAULTS["a pattern and lengths"]
    assert refusal(compiler, place(bad, "#/properties/a~1b/items")).startswith("#: ")
    compiler.close()
