"""Schemas of the kinds that people use, and the cases of public failures, over a real vocabulary.

json_schema_sample.json: each schema is taken or refused with a path; its valid instances, compact and with members in
the schema's order, can be written, its invalid ones cannot.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema import prepare_schema
from tests.support.constraint_walk import WalkVocabulary, accepts, compiled
from tests.support.tokenizer_forms import demo_vocabulary

# llguidance's adapter asks llama.cpp by an older name of a function.
pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated:DeprecationWarning"),
]

SAMPLE: list[dict[str, Any]] = json.loads((Path(__file__).parent / "json_schema_sample.json").read_text("utf-8"))
MOST_REFUSED = 0.06


@pytest.fixture(scope="module")
def vocabulary() -> WalkVocabulary:
    opened = demo_vocabulary()
    return WalkVocabulary.of(opened.form, opened.vocabulary.end_of_generation_tokens)


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Constraint:
    """What can be written under a schema."""

    def __init__(self, vocabulary: WalkVocabulary, schema: Any) -> None:
        self._vocabulary = vocabulary
        self._matcher = compiled(vocabulary, prepare_schema(json.dumps(schema)))

    def takes(self, value: Any) -> bool:
        return self.takes_text(compact(value))

    def takes_text(self, text: str) -> bool:
        return accepts(self._vocabulary, self._matcher, text)


def test_the_sample(vocabulary: WalkVocabulary) -> None:
    wrong = []
    for entry in SAMPLE:
        try:
            constraint = Constraint(vocabulary, entry["schema"])
        except SchemaError as refused:
            if refused.path != entry.get("refused"):
                wrong.append(f"{entry['name']}: refused: {refused}")
            continue
        if "refused" in entry:
            wrong.append(f"{entry['name']}: taken")
            continue
        wrong.extend(
            f"{entry['name']}: {value!r} cannot be written" for value in entry["valid"] if not constraint.takes(value)
        )
        wrong.extend(
            f"{entry['name']}: {value!r} can be written" for value in entry["invalid"] if constraint.takes(value)
        )
    assert wrong == []


def test_few_schemas_of_the_sample_are_refused() -> None:
    """Of those that mean something: what is wrong in itself is right to be refused, and counted all the same."""
    refused = [entry["name"] for entry in SAMPLE if "refused" in entry]
    print(f"{len(refused)} of {len(SAMPLE)} schemas are refused: {', '.join(refused)}")
    assert len(SAMPLE) >= 300
    assert len(refused) < MOST_REFUSED * len(SAMPLE)


def test_c06_no_white_space_can_be_written(vocabulary: WalkVocabulary) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    constraint = Constraint(vocabulary, schema)
    assert constraint.takes_text('{"a":" x "}')
    for text in ('{ "a":"x"}', '{"a": "x"}', '{"a":"x" }', '\n{"a":"x"}', '{"a":"x"}\n', '{"a":"x"} '):
        assert not constraint.takes_text(text), text


def test_c07_shorthand_classes_in_patterns(vocabulary: WalkVocabulary) -> None:
    properties = {
        "id": {"type": "string", "pattern": "^(tmp-)?\\d{4,6}$"},
        "slug": {"type": "string", "pattern": "^[\\w-]+$"},
    }
    schema = {"type": "object", "properties": properties, "required": ["id", "slug"], "additionalProperties": False}
    constraint = Constraint(vocabulary, schema)
    assert constraint.takes({"id": "tmp-12345", "slug": "a_b-1"})
    for identifier, slug in (("123", "a"), ("\u0661\u0662\u0663\u0664", "a"), ("1234", ""), ("1234", "\u00e9")):
        assert not constraint.takes({"id": identifier, "slug": slug})
    properties["id"]["pattern"] = "\\bx"
    with pytest.raises(SchemaError, match=r"^#/properties/id/pattern: .*word boundary"):
        prepare_schema(schema)


# C08, recursive and odd references: in the sample, by these names.
@pytest.mark.parametrize(
    "name",
    [
        "recursive model as Pydantic writes it", "reference to the root", "reference loop",
        "reference through an array index", "reference to nothing", "remote reference", "definition with a slash",
    ],
)  # fmt: skip
def test_c08_odd_references_are_in_the_sample(name: str) -> None:
    assert name in {entry["name"] for entry in SAMPLE}


@pytest.mark.parametrize(
    ("schema", "inside", "outside"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 10}, ["0", "9", "10"], ["11", "-1", "01", "00", "1.0", "5.7"]),
        ({"type": "integer", "minimum": -5}, ["-5", "0", "123"], ["-6", "-05", "-0.5"]),
        ({"type": "integer", "minimum": 0.5, "maximum": 3.5}, ["1", "3"], ["0", "4", "0.5"]),
        ({"type": "number", "minimum": 0, "maximum": 1}, ["0", "1", "0.5", "1.0"], ["7.5", "1.01", "-0.1", ".5", "1."]),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 2**53 - 1}, ["1", "9007199254740991"],
         ["0", "9007199254740992"]),
    ],
)  # fmt: skip
def test_c09_bounds_of_numbers(vocabulary: WalkVocabulary, schema: Any, inside: list[str], outside: list[str]) -> None:
    constraint = Constraint(vocabulary, schema)
    assert [text for text in inside if not constraint.takes_text(text)] == []
    assert [text for text in outside if constraint.takes_text(text)] == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "integer", "minimum": 5, "maximum": 1},
        {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 1},
    ],
)
def test_c09_and_c10_impossible_sizes_are_called_unsatisfiable(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="unsatisfiable"):
        prepare_schema(schema)


def test_c10_sizes_are_enforced_however_large(vocabulary: WalkVocabulary) -> None:
    for most in (1, 2, 1_000, 2_001, 10_000):
        constraint = Constraint(vocabulary, {"type": "string", "maxLength": most})
        assert constraint.takes("x" * most)
        assert not constraint.takes("x" * (most + 1))
    array = Constraint(vocabulary, {"type": "array", "items": {"type": "integer"}, "maxItems": 100_000})
    assert array.takes([1] * 2_000)
    empty = Constraint(vocabulary, {"type": "array", "items": {"type": "string"}, "maxItems": 0})
    assert empty.takes([])
    assert not empty.takes(["a"])
    two = Constraint(vocabulary, {"type": "string", "minLength": 1, "maxLength": 2})
    assert two.takes("\U0001f600\U0001f601")
    assert not two.takes("\U0001f600\U0001f601\U0001f602")
    assert not two.takes("")


def test_c11_types_and_null(vocabulary: WalkVocabulary) -> None:
    unit = {"anyOf": [{"type": "string", "enum": ["c", "f"]}, {"type": "null"}]}
    schema = {"type": "object", "properties": {"unit": unit, "n": {"type": ["integer", "null"]}}}
    constraint = Constraint(vocabulary, {**schema, "required": ["unit", "n"]})
    assert constraint.takes({"unit": "c", "n": 1})
    assert constraint.takes({"unit": None, "n": None})
    assert not constraint.takes({"unit": "x", "n": 1})
    assert not constraint.takes({"unit": "c"})
    union = {"type": ["object", "null"], "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    constraint = Constraint(vocabulary, union)
    assert constraint.takes(None)
    assert constraint.takes({"a": 1})
    assert not constraint.takes({})


@pytest.mark.parametrize(
    "members",
    [
        ['a"b\\c\nd\t\u00e9'],
        ["na\u00efve", "\u4f60\u597d", "\U0001f600", 'q"uote'],
        ["a", 1, None, True, {"k": [1, 2]}],
        [{'\u043a\u043b\u044e\u0447 "x"\n': 1}],
        ["/", "</script>", "\u2028", "\b\f\r"],
    ],
)
def test_c12_values_of_any_text_come_out_exactly(vocabulary: WalkVocabulary, members: list[Any]) -> None:
    constraint = Constraint(vocabulary, {"enum": members})
    assert [value for value in members if not constraint.takes(value)] == []
    assert not constraint.takes("other")
    assert not constraint.takes_text('"\\u0061"')
    for value in members:
        only = Constraint(vocabulary, {"const": value})
        assert [other for other in members if only.takes(other)] == [value]


def test_c12_a_string_holds_no_raw_control_character_and_no_half_of_a_pair(vocabulary: WalkVocabulary) -> None:
    constraint = Constraint(vocabulary, {"type": "string"})
    assert constraint.takes('\n\t\b\f\r"\\/ \U0001f600')
    for text in ('"\n"', '"\t"', '"\x00"', '"\x1f"', '"\\ud83d"', '"\\x41"', '"\\/"'):
        assert not constraint.takes_text(text), text


@pytest.mark.parametrize("text", ["", "null", "[]", '"string"', "{", "5"])
def test_c13_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        prepare_schema(text)


def test_c13_any_object_is_a_schema_too(vocabulary: WalkVocabulary) -> None:
    constraint = Constraint(vocabulary, {"type": "object"})
    assert constraint.takes({})
    assert constraint.takes({"a": [None, {"b": 1.5}]})
    assert not constraint.takes([])
