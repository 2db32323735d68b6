"""The XML styles: an object whose members are written like `<parameter=name>value</parameter>`, one after another.

A string stands there as it is, without quotes and escapes, up to the end; every other value is JSON. So what may be a
string and what may not must be told apart by the schema alone; a property that could be either is refused, and so is
a constraint on a string that cannot be put on raw text. Members come in the schema's order, and only those that it
lists: that is narrower than the schema where it allows others, never wider. Nothing stands between them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from agent.constraint.structural_tag.fields import below, checked_text, quoted, refusal
from agent.constraint.structural_tag.text import choice, text_until
from agent.constraint.tree import Node, Repeat, Sequence, Text


class Style(NamedTuple):
    """What is written before a member's name, between the name and the value, and after the value."""

    begin: str
    after_name: str
    end: str


STYLES = {
    "qwen_xml": Style("<parameter=", ">", "</parameter>"),
    "minimax_xml": Style('<parameter name="', '">', "</parameter>"),
    "glm_xml": Style("<arg_key>", "</arg_key><arg_value>", "</arg_value>"),
}
_NOTES = frozenset(
    ("$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly")
)
_DEFINITIONS = frozenset(("$defs", "definitions"))
_OF_THE_OBJECT = frozenset(("type", "properties", "required", "additionalProperties")) | _DEFINITIONS | _NOTES

Json = Any
DocumentOf = Callable[[Json, str], Node]
"""The JSON document of a schema that stands at a path. Raises GrammarError."""


def parameters_of(schema: Json, path: str, style_name: str, document_of: DocumentOf) -> Node:
    """The members of an object, each as a parameter. Raises GrammarError naming what the style cannot say."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise refusal(path, f'must be a schema of "type": "object" in the style {style_name}')
    for name in schema:
        if name not in _OF_THE_OBJECT:
            raise refusal(below(path, name), f"cannot be kept in the style {style_name}; remove it, or use json")
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict):
        raise refusal(below(path, "properties"), "must be an object")
    if not isinstance(required, list) or not all(isinstance(name, str) and name in properties for name in required):
        raise refusal(below(path, "required"), 'must list names of "properties"')
    shared = {name: schema[name] for name in _DEFINITIONS if name in schema}
    style = STYLES[style_name]
    parts: list[Node] = []
    for name, member in properties.items():
        where = below(below(path, "properties"), name)
        begin = Text(style.begin + _name(name, where) + style.after_name)
        parameter = Sequence((begin, _value(member, style, where, lambda one, at: document_of({**shared, **one}, at))))
        parts.append(parameter if name in required else Repeat(parameter, 0, 1))
    return Sequence(tuple(parts))


def _name(name: str, path: str) -> str:
    if not name or any(character in name for character in '<>&"\n'):
        raise refusal(path, f"{quoted(name)} cannot be the name of a parameter")
    return checked_text(name, path)


def _value(schema: Json, style: Style, path: str, document_of: DocumentOf) -> Node:
    """A value and the end of its parameter."""
    if not isinstance(schema, dict):
        raise refusal(path, 'needs a "type" in an XML style')
    asked = {name: value for name, value in schema.items() if name not in _NOTES}
    if asked == {"type": "string"}:
        return text_until(style.end, (), ())
    values = asked.get("enum", [asked["const"]] if "const" in asked else None)
    if asked.get("type", "string") == "string" and isinstance(values, list):
        if set(asked) <= {"type", "enum"} or set(asked) <= {"type", "const"}:
            return choice(Text(_raw_string(value, style, path)) for value in values)
    types = asked.get("type")
    types = [types] if isinstance(types, str) else types
    if not isinstance(types, list) or "string" in types:
        raise refusal(
            path,
            'must be a plain string, strings in an "enum", or of a type that is no string: XML styles write strings '
            "without quotes and cannot check them",
        )
    return Sequence((document_of(schema, path), Text(style.end)))


def _raw_string(value: Json, style: Style, path: str) -> str:
    if not isinstance(value, str) or style.end in value:
        raise refusal(path, f"holds a value that is no string, or one that contains {style.end}")
    return checked_text(value, path) + style.end
