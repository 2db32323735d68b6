"""Structural tags written briefly, and what a recogniser of texts needs to judge them."""

from dataclasses import replace
from typing import Any

from agent.constraint.structural_tag.parsing import parse_structural_tag
from agent.constraint.tree import Choice, Grammar, JsonDocument, Node, Repeat, Sequence, Text
from tests.support.constraint_recogniser import Recogniser

Json = dict[str, Any]

ANY: Json = {"type": "any_text"}
DIGITS: Json = {"type": "regex", "pattern": "[0-9]+"}
WEATHER: Json = {
    "type": "json_schema",
    "json_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
DOCUMENT = '{"city":"Oslo"}'
"""Stands for every JSON document when texts are judged."""


def const(value: str) -> Json:
    return {"type": "const_string", "value": value}


def tag(begin: str, content: Json, end: Any) -> Json:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def triggered(*tags: Json, triggers: list[str], **more: Any) -> Json:
    return {"type": "triggered_tags", "triggers": triggers, "tags": list(tags), **more}


def sequence(*elements: Json) -> Json:
    return {"type": "sequence", "elements": list(elements)}


def whole(form: Json) -> Json:
    return {"type": "structural_tag", "format": form}


def judge(form: Json) -> Recogniser:
    """Of texts; each JSON document is taken to be DOCUMENT."""
    return Recogniser(without_documents(parse_structural_tag(whole(form))))


def without_documents(grammar: Grammar) -> Grammar:
    """Each JSON document replaced by one text, so that the recogniser can judge what is around it."""
    return replace(grammar, rules={name: _without(node) for name, node in grammar.rules.items()})


def _without(node: Node) -> Node:
    match node:
        case JsonDocument():
            return Text(DOCUMENT)
        case Sequence(parts):
            return replace(node, parts=tuple(_without(part) for part in parts))
        case Choice(options):
            return replace(node, options=tuple(_without(option) for option in options))
        case Repeat(body):
            return replace(node, body=_without(body))
        case _:
            return node
