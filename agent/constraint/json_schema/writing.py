"""Writes clauses in the part of JSON Schema that the library enforces exactly, with holes where subschemas belong."""

from dataclasses import dataclass
from typing import Any

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.clause import Arrays, Clause, Objects, Strings
from agent.constraint.json_schema.expansion import Expansion
from agent.constraint.json_schema.finishing_names import is_closed
from agent.constraint.json_schema.keywords import ANYTHING, IMPOSSIBLE, Conjunction
from agent.constraint.json_schema.options import is_writable
from agent.constraint.json_schema.patterns import Pattern
from agent.constraint.json_schema.values import (
    ALL_TYPES,
    ARRAY,
    FRACTION,
    INTEGER,
    NUMBERS,
    OBJECT,
    STRING,
    texts_in,
)
from agent.constraint.json_schema.writing_numbers import check_numbers, numbers_schema
from agent.constraint.json_schema.writing_texts import combined, pattern_text, required_nodes
from agent.constraint.tree import Choice, Node, Text

_TYPE_ORDER = ("null", "boolean", "integer", "number", "string", "array", "object")


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of a subschema."""

    conjunction: Conjunction


Template = dict[str, Any] | bool


class Writing:
    def __init__(self, expansion: Expansion) -> None:
        self._expansion = expansion

    def template(self, conjunction: Conjunction) -> Template:
        """The schema for a conjunction that was reduced. Raises SchemaError where it cannot be written."""
        if conjunction == ANYTHING:
            return True
        if conjunction == IMPOSSIBLE:
            return False
        options = self._plain_options(conjunction)
        if options is None:
            options = [self._clause(clause) for clause in self._expansion.clauses(conjunction)]
        if len(options) == 1:
            return options[0] if not isinstance(options[0], Hole) else {"anyOf": options}
        return {"anyOf": options} if options else False

    def _plain_options(self, conjunction: Conjunction) -> list[Any] | None:
        """A subschema that is a choice and nothing else stays one: its options keep names of their own."""
        if len(conjunction) != 1 or conjunction[0] < 0:
            return None
        said = self._expansion.reduction.said(conjunction[0])
        keywords = self._expansion.subschemas.keywords(conjunction[0])
        if said == {"choices"} and len(keywords.choices) == 1:
            options = keywords.choices[0]
        elif said == {"exclusive"} and len(keywords.exclusive) == 1:
            options = self._expansion.comparison.separated(keywords.exclusive[0])
        else:
            return None
        reduced = dict.fromkeys(map(self._expansion.reduction.reduced, options))
        if ANYTHING in reduced:
            return [Hole(ANYTHING)]
        return [Hole(option) for option in reduced if option != IMPOSSIBLE]

    def _clause(self, clause: Clause) -> dict[str, Any]:
        if clause.values is not None:
            for value in clause.values:
                check_numbers(value, clause.path)
                if not all(map(is_writable, texts_in(value))):
                    raise SchemaError(
                        "a value holds a control character that has no short escape in JSON, and no other is written",
                        clause.path,
                    )
            return {"enum": list(clause.values)}
        schema: dict[str, Any] = {}
        if clause.types != ALL_TYPES:
            schema["type"] = _type_names(clause)
        if clause.types & NUMBERS:
            schema |= numbers_schema(
                clause.numbers, INTEGER in clause.types and FRACTION not in clause.types, clause.path
            )
        if STRING in clause.types:
            schema |= _strings(clause.strings, clause.path)
        if ARRAY in clause.types:
            schema |= _arrays(clause.arrays)
        if OBJECT in clause.types:
            schema |= _objects(clause.objects, clause.path)
        return schema


def _type_names(clause: Clause) -> str | list[str]:
    names = set(clause.types - NUMBERS)
    if clause.types & NUMBERS:
        names.add("number" if FRACTION in clause.types else INTEGER)
    ordered = [name for name in _TYPE_ORDER if name in names]
    return ordered[0] if len(ordered) == 1 else ordered


def _strings(strings: Strings, path: str) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if strings.min_length:
        schema["minLength"] = strings.min_length
    if strings.max_length is not None:
        schema["maxLength"] = strings.max_length
    # A text that JSON cannot hold leaves nothing: a pattern of the empty class.
    texts = [pattern_text(node, path) or "^[^\\x{0}-\\x{10ffff}]$" for node in required_nodes(strings, path)]
    if texts:
        schema["pattern"] = texts[0]
    if len(texts) > 1:
        schema["allOf"] = [{"pattern": text} for text in texts[1:]]
    return schema


def _arrays(arrays: Arrays) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if arrays.prefix:
        schema["prefixItems"] = [Hole(item) for item in arrays.prefix]
    if arrays.rest != ANYTHING and (arrays.most is None or arrays.most > len(arrays.prefix)):
        schema["items"] = Hole(arrays.rest)
    if arrays.least:
        schema["minItems"] = arrays.least
    if arrays.most is not None:
        schema["maxItems"] = arrays.most
    return schema


def _objects(objects: Objects, path: str) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    closed = is_closed(objects)
    properties = {}
    for name, value in objects.names.items():
        if value == IMPOSSIBLE and (closed or not is_writable(name)):
            continue
        if not is_writable(name):
            raise SchemaError(
                f"the name {name[:40]!r} holds a control character that has no short escape in JSON", path
            )
        properties[name] = Hole(value)
    if properties:
        schema["properties"] = properties
    if closed:
        schema["additionalProperties"] = False
    elif objects.rules:
        rule = objects.rules[0]
        patterns = {
            pattern_text(_without_listed(pattern, objects, value, path), path): Hole(value)
            for pattern, value in rule.patterns
        }
        written = {text: value for text, value in patterns.items() if text is not None}
        if written:
            schema["patternProperties"] = written
        if rule.others != ANYTHING:
            schema["additionalProperties"] = Hole(rule.others)
    if objects.required:
        schema["required"] = list(objects.required)
    if objects.least:
        schema["minProperties"] = objects.least
    if objects.most is not None:
        schema["maxProperties"] = objects.most
    return schema


def _without_listed(pattern: Pattern, objects: Objects, value: Conjunction, path: str) -> Node:
    """The names of the pattern that are not listed.

    All that is demanded of a listed member stands with it. The library would add what the pattern demands, and gives up
    where that leads round in a circle.
    """
    listed = [name for name in objects.names if pattern.matches(name)]
    if not listed or value in (ANYTHING, IMPOSSIBLE):
        return pattern.node
    try:
        return combined([pattern.node], [Choice(tuple(map(Text, listed)))], path)
    except SchemaError:
        return pattern.node  # the meaning is the same, and mostly the library sees through it
