"""Structural tags as a whole: the older form, schemas inside, and what is refused, with its place."""

import json

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.structural_tag.parsing import parse_structural_tag
from agent.constraint.tree import Choice, Grammar, JsonDocument, Repeat, RuleOptions, Sequence, Text
from tests.support.constraint_recogniser import Recogniser
from tests.support.structural_tags import (
    ANY,
    DIGITS,
    DOCUMENT,
    WEATHER,
    Json,
    const,
    sequence,
    tag,
    triggered,
    whole,
    without_documents,
)

WEATHER_CALL = f"<function=weather>{DOCUMENT}</function>"
TOOLS = (tag("<function=weather>", WEATHER, "</function>"), tag("<function=time>", DIGITS, "</function>"))
CALLS = triggered(*TOOLS, triggers=["<function="])


def test_the_older_form_means_triggered_tags() -> None:
    old = {
        "type": "structural_tag",
        "structures": [{"begin": "<function=weather>", "schema": WEATHER["json_schema"], "end": "</function>"}],
        "triggers": ["<function="],
    }
    new = whole(triggered(TOOLS[0], triggers=["<function="]))
    assert parse_structural_tag(old) == parse_structural_tag(new)
    assert parse_structural_tag(json.dumps(old)) == parse_structural_tag(new)
    at_least_one = Recogniser(without_documents(parse_structural_tag({**old, "at_least_one": True})))
    assert at_least_one.accepts(WEATHER_CALL + " text")
    assert not at_least_one.accepts("text" + WEATHER_CALL)


def test_a_schema_may_be_text_and_goes_through_our_check() -> None:
    old = {"structures": [{"begin": "<", "schema": '{"type": "integer"}', "end": ">"}], "triggers": ["<"]}
    assert JsonDocument({"type": "integer"}) in documents_of(parse_structural_tag(old))
    with pytest.raises(GrammarError, match=r"^#/structures/0/schema/x-guidance: "):
        parse_structural_tag({**old, "structures": [{"begin": "<", "schema": {"x-guidance": {}}, "end": ">"}]})


def documents_of(grammar: Grammar) -> list[JsonDocument]:
    found, pending = [], list(grammar.rules.values())
    while pending:
        match pending.pop():
            case JsonDocument() as document:
                found.append(document)
            case Sequence(children) | Choice(children):
                pending.extend(children)
            case Repeat(body):
                pending.append(body)
    return found


# Refusals: a format, and what its message says.

REFUSED: dict[str, tuple[Json, str]] = {
    "triggers where one is a prefix": (
        triggered(tag("<ab>", DIGITS, ""), triggers=["<a", "<ab"]),
        '#/format: the trigger "<a" is a part of the trigger "<ab"',
    ),
    "triggers where one is inside": (
        triggered(tag("x<a", DIGITS, ""), tag("<a", DIGITS, ""), triggers=["x<a", "<a"]),
        '#/format: the trigger "<a" is a part',
    ),
    "a begin without its trigger": (
        triggered(tag("<a>", DIGITS, ""), tag("[b]", DIGITS, ""), triggers=["<a"]),
        "#/format/tags/1/begin: does not begin with any of the triggers",
    ),
    "a trigger without a tag": (
        triggered(tag("<a>", DIGITS, ""), triggers=["<a", "[b"]),
        '#/format/triggers: no tag begins with the trigger "[b"',
    ),
    "a trigger that is excluded": ({**CALLS, "excludes": ["<function="]}, "is a trigger and excluded"),
    "a trigger inside the end around it": (
        tag("<r>", CALLS, "x<function=y"),
        '#/format/content: the trigger "<function=',
    ),
    "an end inside a trigger": (tag("<r>", CALLS, "<"), '#/format/content: the trigger "<function='),
    "an end that comes too late": (tag("<", ANY, ["</t", "</t>"]), '#/format/content: the end "</t>" could never'),
    "text before something": (sequence(ANY, const("x")), "#/format/elements/0: free text would swallow"),
    "calls before something": (sequence(CALLS, const("x")), "#/format/elements/0: free text would swallow"),
    "text or something before something": (
        sequence({"type": "or", "elements": [ANY, const("y")]}, const("x")),
        "#/format/elements/0: free text would swallow",
    ),
    "text over and over": ({"type": "star", "content": ANY}, "#/format/content: free text cannot be repeated"),
    "text in a dispatch": (
        {"type": "dispatch", "rules": [["<n>", ANY]]},
        "#/format/rules/0/1: free text would swallow",
    ),
    "the same pattern twice": (
        {"type": "dispatch", "rules": [["<n>", DIGITS], ["<n>", const("x")]]},
        '#/format: "<n>" is there twice; join',
    ),
    "text without an end": (tag("<t>", ANY, ""), "#/format/end: free text needs an end"),
    "characters and an end": (
        tag("<t>", {**ANY, "max_chars": 5}, "</t>"),
        "#/format/content/max_chars: cannot be kept",
    ),
    "a bound in tokens before an end that could begin in the text": (
        tag("<t>", {**ANY, "max_tokens": 5}, "\n\n"),
        '#/format/content/max_tokens: cannot be kept before the end "\\n\\n", which may begin inside "\\n\\n"; use',
    ),
    "a bound in tokens before an end that could end something excluded": (
        tag("<t>", {**ANY, "max_tokens": 5, "excludes": ["x</"]}, "</t>"),
        '#/format/content/max_tokens: cannot be kept before the end "</t>", which may begin inside "x</"; use',
    ),
    "a bound in tokens below none": ({**ANY, "max_tokens": -1}, "#/format/max_tokens: must be a whole number from 0"),
    "a separator that is the end": (
        tag("[", {"type": "tags_with_separator", "tags": list(TOOLS), "separator": "]"}, "]"),
        "#/format/content/separator: is also the end",
    ),
    "keys in any order": ({**WEATHER, "any_order": True}, "#/format/any_order: is not supported"),
    "another style": ({**WEATHER, "style": "kimi_k3_xml"}, '#/format/style: "kimi_k3_xml" is not supported'),
    "no style": ({**WEATHER, "style": "yaml"}, '#/format/style: "yaml" is no style'),
    "a schema that allows nothing": ({**WEATHER, "json_schema": False}, "#/format/json_schema: allows no document"),
    "no schema": ({**WEATHER, "json_schema": 5}, "#/format/json_schema: must be a JSON schema"),
    "our own word in a schema": (
        sequence(const("a"), {**WEATHER, "json_schema": {"x-guidance": {}}}),
        "#/format/elements/1/json_schema/x-guidance: ",
    ),
    "a bad pattern": ({"type": "regex", "pattern": "(a"}, "#/format/pattern: line 1, column "),
    "a bad grammar": ({"type": "grammar", "grammar": "root = bad"}, "#/format/grammar: line 1, column "),
    "a token without a vocabulary": ({"type": "token", "token": "<|x|>"}, "#/format: needs a model"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_honoured_is_refused_with_its_place(name: str) -> None:
    form, sentence = REFUSED[name]
    with pytest.raises(GrammarError) as caught:
        parse_structural_tag(whole(form))
    assert sentence in str(caught.value)


def test_a_bound_in_tokens_is_an_option_of_the_text_and_goes_with_any_end() -> None:
    bounded = {**ANY, "max_tokens": 5}
    for form in (
        bounded,
        tag("<t>", bounded, "</t>"),
        sequence(bounded, const("x")),
        {"type": "star", "content": bounded},
    ):
        grammar = parse_structural_tag(whole(form))
        assert list(grammar.options.values()) == [RuleOptions(max_tokens=5)]
        assert set(grammar.options) <= set(grammar.rules)
    nothing = parse_structural_tag(whole(tag("<t>", {**ANY, "max_tokens": 0}, "</t>")))
    assert not nothing.options
    assert Recogniser(nothing).accepts("<t></t>")
    assert not Recogniser(nothing).accepts("<t>a</t>")


def test_the_options_of_an_inner_grammar_are_kept() -> None:
    grammar = parse_structural_tag(whole({"type": "grammar", "grammar": 'root ::= a\na[temperature=0.5] ::= "x"'}))
    ((name, options),) = grammar.options.items()
    assert options == RuleOptions(temperature=0.5)
    assert grammar.rules[name] == Text("x")
