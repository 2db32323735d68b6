"""Reading is strict and bounded: what is not understood is refused, with its place, however large or deep it is."""

import json

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.structural_tag.formats import AnyText, OneToken, Repeated, Tag, TriggeredTags
from agent.constraint.structural_tag.parsing import parse_structural_tag
from agent.constraint.structural_tag.reader import MAX_DEPTH, MAX_FORMATS, read_structural_tag
from tests.support.structural_tags import ANY, DIGITS, WEATHER, Json, const, sequence, tag, triggered, whole

TOKEN = {"type": "token", "token": "<|x|>"}
CALL = tag("<a>", DIGITS, "</a>")

# One of each format, complete.
COMPLETE: list[Json] = [
    const("x"),
    WEATHER,
    {**WEATHER, "style": "qwen_xml"},
    {"type": "qwen_xml_parameter", "json_schema": {"type": "object"}},
    {"type": "grammar", "grammar": 'root ::= "x"'},
    DIGITS,
    {**ANY, "excludes": ["x"], "max_tokens": None, "max_chars": 5},
    sequence(const("x")),
    {"type": "or", "elements": [const("x")]},
    {"type": "optional", "content": const("x")},
    {"type": "plus", "content": const("x")},
    {"type": "star", "content": const("x")},
    {"type": "repeat", "min": 0, "max": -1, "content": const("x")},
    CALL,
    triggered(CALL, triggers=["<"], at_least_one=True, stop_after_first=True, excludes=["x"]),
    {"type": "tags_with_separator", "tags": [CALL], "separator": ","},
    {"type": "dispatch", "rules": [["<", const("x")]], "loop": False, "excludes": ["x"]},
    TOKEN,
    {"type": "exclude_token", "exclude_tokens": [5, "<|x|>"]},
    {"type": "any_tokens", "exclude_tokens": [5], "max_tokens": 3},
    {"type": "token_triggered_tags", "trigger_tokens": [7], "tags": [{**CALL, "begin": TOKEN}], "exclude_tokens": []},
    {"type": "token_dispatch", "rules": [[7, const("x")]], "loop": True, "exclude_tokens": ["<|x|>"]},
]


@pytest.mark.parametrize("form", COMPLETE, ids=lambda form: str(form["type"]))
def test_every_format_is_read_and_takes_no_other_member(form: Json) -> None:
    read_structural_tag(whole(form))
    with pytest.raises(GrammarError, match=r'^#/format: a format has no member "colour"'):
        read_structural_tag(whole({**form, "colour": "red"}))


@pytest.mark.parametrize("form", COMPLETE, ids=lambda form: str(form["type"]))
def test_every_needed_member_is_named_when_it_is_missing(form: Json) -> None:
    optional = {
        *("style", "excludes", "exclude_tokens", "max_tokens", "max_chars", "loop", "at_least_one"),
        "stop_after_first",
    }
    for name in form:
        without = {key: value for key, value in form.items() if key != name}
        if name in optional:
            read_structural_tag(whole(without))
        else:
            with pytest.raises(GrammarError, match=f'"{name}"'):
                read_structural_tag(whole(without))


def test_the_values_are_those_of_the_document() -> None:
    found = read_structural_tag(
        whole(
            {
                "type": "repeat",
                "min": 2,
                "max": 3,
                "content": {"type": "tag", "begin": TOKEN, "content": ANY, "end": ["b", "", "b"]},
            }
        )
    )
    token = OneToken("#/format/content/begin", "<|x|>")
    any_text = AnyText("#/format/content/content", (), None)
    assert found == Repeated("#/format", Tag("#/format/content", token, any_text, ("b", "")), 2, 3)


def test_tags_need_no_type_where_only_tags_may_stand() -> None:
    without = {name: value for name, value in CALL.items() if name != "type"}
    found = read_structural_tag(whole(triggered(without, triggers=["<"])))
    assert isinstance(found, TriggeredTags)
    assert found.tags[0].begin == "<a>"
    with pytest.raises(GrammarError, match=r'^#/format/tags/0/type: must be "tag"'):
        read_structural_tag(whole(triggered(ANY, triggers=["<"])))


WRONG: list[tuple[Json, str]] = [
    (const(5), "#/format/value: must be a string"),  # type: ignore[arg-type]
    ({"type": "any_thing"}, '#/format/type: "any_thing" is no format; known are const_string,'),
    ({"type": 5}, "#/format/type: must be a string"),
    ({**ANY, "excludes": "x"}, "#/format/excludes: must be a list"),
    ({**ANY, "excludes": ["x", 5]}, "#/format/excludes/1: must be a string of at least one character"),
    ({**ANY, "excludes": [""]}, "#/format/excludes/0: must be a string of at least one character"),
    ({**ANY, "excludes": ["x", "x"]}, '#/format/excludes/1: "x" is there twice'),
    ({**ANY, "excludes": ["x" * 257]}, "#/format/excludes/0: has 257 characters; at most 256"),
    ({**ANY, "excludes": [str(n) for n in range(129)]}, "#/format/excludes: has 129 elements; at most 128"),
    ({**ANY, "max_chars": -1}, "#/format/max_chars: must be a whole number from 0"),
    ({**ANY, "max_chars": True}, "#/format/max_chars: must be a whole number"),
    ({**ANY, "max_chars": 1.0}, "#/format/max_chars: must be a whole number"),
    ({**ANY, "max_chars": 1_000_001}, "#/format/max_chars: must be a whole number"),
    (sequence(), "#/format/elements: must be a list with at least one element"),
    ({"type": "sequence", "elements": [5]}, "#/format/elements/0: must be an object: a format"),
    ({"type": "repeat", "min": 2, "max": 1, "content": ANY}, "#/format/max: is 1, less than min, 2"),
    ({"type": "repeat", "min": 0, "max": -2, "content": ANY}, "#/format/max: must be a whole number from -1"),
    ({**CALL, "begin": ANY}, '#/format/begin: must be a string, or a format of type "token"'),
    ({**CALL, "end": []}, "#/format/end: must be a string, a list of strings, or a token format"),
    ({**CALL, "end": ["x", 5]}, "#/format/end/1: must be a string"),
    ({**CALL, "end": 5}, "#/format/end: must be a string, a list"),
    (triggered(CALL, triggers=[]), "#/format/triggers: must be a list with at least one"),
    (triggered(CALL, triggers=["<"], at_least_one="yes"), "#/format/at_least_one: must be true or false"),
    ({"type": "dispatch", "rules": [["<"]]}, "#/format/rules/0: must be a list of two"),
    ({"type": "token", "token": True}, "#/format/token: must be the number of a token or its spelling"),
    ({"type": "token", "token": -1}, "#/format/token: must be the number"),
    (const("\ud800"), "lone surrogate"),
]


@pytest.mark.parametrize(("form", "sentence"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_value_is_refused_with_its_place(form: Json, sentence: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_structural_tag(whole(form))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("", "the structural tag is not JSON"),
        ("{", "the structural tag is not JSON"),
        ("[]", "object"),
        ('{"type": "structural_tag"}', '#: a structural tag needs "format"'),
        ('{"type": "json_schema", "format": {}}', '#/type: must be "structural_tag"'),
        ('{"type": "structural_tag", "format": {"type": "any_text"}, "x": 1}', '#: a structural tag has no member "x"'),
        ('{"format": {"type": "any_text", "type": "regex"}}', "twice"),
        ('{"format": {"type": "any_text", "max_chars": NaN}}', "NaN"),
        ('{"format": {"type": "any_text", "max_chars": 1e999}}', "#"),
        ('{"structures": [], "triggers": ["<"]}', "#/structures: must be a list with at least one"),
        (
            '{"structures": [{"begin": "<", "schema": {}}], "triggers": ["<"]}',
            '#/structures/0: a structure needs "end"',
        ),
        ('{"structures": [{"begin": "<", "end": ">"}], "triggers": ["<"]}', 'a structure needs "schema"'),
        ('{"structures": [{"begin": "<", "end": ">", "schema": {}}]}', 'needs "triggers"'),
        ('{"structures": [{"begin": "<", "end": ">", "schema": {}}], "triggers": ["<"], "format": {}}', '"format"'),
        ("[" * 60_000, "nests deeper"),
        ('{"format": ' * 60_000, "nests deeper"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(document: str, sentence: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_structural_tag(document)
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 400


def test_formats_are_bounded_in_depth_and_number() -> None:
    deep = const("x")
    for _ in range(MAX_DEPTH - 1):
        deep = {"type": "optional", "content": deep}
    parse_structural_tag(whole(deep))
    with pytest.raises(GrammarError, match="formats are nested deeper than"):
        parse_structural_tag(whole({"type": "optional", "content": deep}))
    many = sequence(*(sequence(*(const("x") for _ in range(99))) for _ in range(MAX_FORMATS // 100)))
    with pytest.raises(GrammarError, match=f"more than {MAX_FORMATS} formats"):
        parse_structural_tag(json.dumps(whole(many)))
