"""The XML styles: what they write, and what they cannot check and so refuse."""

from typing import Any

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.structural_tag.parsing import parse_structural_tag
from agent.constraint.structural_tag.xml import parameters_of
from agent.constraint.tree import Choice, FreeText, JsonDocument, Repeat, Sequence, Text
from tests.support.structural_tags import Json, judge, whole

SHARED = {"n": {"type": "integer"}}


def schema(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


def parsed(found: Json, style: str = "qwen_xml") -> Sequence:
    node = parameters_of(found, "#", style, lambda schema, path: JsonDocument(schema))
    assert isinstance(node, Sequence)
    return node


def test_a_string_is_raw_text_up_to_the_end_of_its_parameter() -> None:
    found = parsed({**schema(city={"type": "string", "title": "City"}), "required": ["city"]})
    assert found == Sequence((Sequence((Text("<parameter=city>"), FreeText((), "</parameter>"))),))


def test_what_is_not_required_may_be_left_out_and_order_is_kept() -> None:
    found = parsed({**schema(b={"const": "x"}, a={"enum": ["y", "z"], "type": "string"}), "required": ["a"]})
    b = Sequence((Text("<parameter=b>"), Text("x</parameter>")))
    a = Sequence((Text("<parameter=a>"), Choice((Text("y</parameter>"), Text("z</parameter>")))))
    assert found == Sequence((Repeat(b, 0, 1), a))


def test_other_values_are_json_and_see_the_shared_definitions() -> None:
    days = {"type": ["array", "null"], "items": {"$ref": "#/$defs/n"}}
    found = parsed({**schema(days=days), "required": ["days"], "$defs": SHARED, "additionalProperties": False})
    document = JsonDocument({"$defs": SHARED, **days})
    assert found == Sequence((Sequence((Text("<parameter=days>"), Sequence((document, Text("</parameter>"))))),))


@pytest.mark.parametrize(
    ("style", "written"),
    [
        ("qwen_xml", "<parameter=a>x</parameter>"),
        ("minimax_xml", '<parameter name="a">x</parameter>'),
        ("glm_xml", "<arg_key>a</arg_key><arg_value>x</arg_value>"),
    ],
)
def test_each_style_has_its_own_marks(style: str, written: str) -> None:
    form = {"type": "json_schema", "style": style, "json_schema": {**schema(a={"type": "string"}), "required": ["a"]}}
    recogniser = judge(form)
    assert recogniser.accepts(written)
    assert not recogniser.accepts(written + written)
    assert not recogniser.accepts("")


REFUSED: list[tuple[Any, str]] = [
    (True, '#/format/json_schema: must be a schema of "type": "object"'),
    ({"type": "array"}, '#/format/json_schema: must be a schema of "type": "object"'),
    ({"type": "object", "minProperties": 1}, "#/format/json_schema/minProperties: cannot be kept"),
    ({"type": "object", "required": ["a"]}, "#/format/json_schema/required: must list names"),
    (schema(a={"type": "string", "minLength": 1}), "#/format/json_schema/properties/a: must be a plain string"),
    (schema(a={"type": ["string", "null"]}), "#/format/json_schema/properties/a: must be a plain string"),
    (schema(a={"enum": ["x", 1]}), "#/format/json_schema/properties/a: holds a value that is no string"),
    (schema(a={"enum": ["</parameter>"]}), "#/format/json_schema/properties/a: holds a value"),
    (schema(a={"$ref": "#/$defs/x"}), "#/format/json_schema/properties/a: must be a plain string"),
    (schema(a=True), '#/format/json_schema/properties/a: needs a "type"'),
    (schema(**{'a"b': {"type": "string"}}), "cannot be the name of a parameter"),
    (schema(**{"a>b": {"type": "string"}}), '"a>b" cannot be the name of a parameter'),
    ({"type": "object", "properties": []}, "#/format/json_schema/properties: must be an object"),
]


@pytest.mark.parametrize(("found", "sentence"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_raw_text_cannot_keep_is_refused(found: Any, sentence: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_structural_tag(whole({"type": "json_schema", "style": "qwen_xml", "json_schema": found}))
    assert sentence in str(caught.value)
