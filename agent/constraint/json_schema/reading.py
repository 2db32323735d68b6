"""Reads a schema object of either draft into Keywords. What cannot be enforced is refused here, with its path."""

from typing import Any

from agent.constraint.json_schema.evaluated import evaluated_items, evaluated_names
from agent.constraint.json_schema.fields import Fields
from agent.constraint.json_schema.formats import format_patterns
from agent.constraint.json_schema.keywords import (
    ANYTHING,
    IMPOSSIBLE,
    Bound,
    Conjunction,
    Contains,
    Keywords,
    conjoin,
)
from agent.constraint.json_schema.patterns import Pattern
from agent.constraint.json_schema.subschemas import Subschemas
from agent.constraint.json_schema.text import pointer
from agent.constraint.json_schema.values import FRACTION, OBJECT
from agent.constraint.json_schema.writing_texts import combined

# Validation keywords of drafts before 4, and of others, that a validator of today would ignore.
_REFUSED = {
    "x-guidance": "x-guidance is not for clients; remove it",
    "divisibleBy": "divisibleBy is from draft 3; write multipleOf",
    "extends": "extends is from draft 3; write allOf",
    "disallow": "disallow is from draft 3; write not",
    "$recursiveRef": "$recursiveRef is from draft 2019-09; write $ref",
}


_ARRAY_WORDS = frozenset({
    "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems"
})  # fmt: skip
_OBJECT_WORDS = frozenset({
    "properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties",
    "propertyNames", "unevaluatedProperties",
})  # fmt: skip
_LOGIC_WORDS = frozenset({
    "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependencies", "dependentRequired",
    "dependentSchemas",
})  # fmt: skip

_ANYTHING_SAID = _LOGIC_WORDS | {"type", "enum", "const"}

_Said = dict[str, Any]
"""Fields of Keywords."""


def read_keywords(subschemas: Subschemas, raw: dict[str, Any], path: str) -> Keywords:
    """The assertions of `raw`. Annotations and unknown words say nothing. Raises SchemaError."""
    fields = Fields(raw, path)
    if "$ref" in raw and subschemas.document.is_old_draft:
        # Draft 7 core, section 8.3: all other members beside a $ref are ignored.
        return Keywords(path, also=_target(subschemas, fields, "$ref"))
    for key, sentence in _REFUSED.items():
        if key in raw:
            fields.refuse(key, sentence)
    said = _read_scalars(subschemas, fields)
    also = [said.pop("also", ANYTHING)]
    for read in (_read_array, _read_object, _read_logic):
        said |= read(subschemas, fields)
        also.append(said.pop("also", ANYTHING))
    # OpenAPI 3.0's word means more than JSON Schema knows of, unless null may be there anyway.
    if raw.get("nullable") is True and not ("null" in said.get("types", ()) or _ANYTHING_SAID.isdisjoint(raw)):
        fields.refuse("nullable", 'nullable is OpenAPI\'s and no JSON Schema; write "type": [..., "null"]')
    return Keywords(path, also=conjoin(*also), **said)


def _child(subschemas: Subschemas, fields: Fields, key: str) -> Conjunction:
    return subschemas.of(fields.raw.get(key, True), pointer(fields.path, key))


def _target(subschemas: Subschemas, fields: Fields, key: str) -> Conjunction:
    reference = fields.text(key) or ""
    document, path = subschemas.document, pointer(fields.path, key)
    found = document.resolve(reference, path) if key == "$ref" else document.find_dynamic(reference, path)
    return subschemas.of(found.value, found.path)


def _read_scalars(subschemas: Subschemas, fields: Fields) -> _Said:
    said: _Said = {}
    multiple = fields.number("multipleOf")
    if multiple is not None and multiple <= 0:
        fields.refuse("multipleOf", "multipleOf is greater than 0")
    if "type" in fields or multiple == 1:
        said["types"] = fields.types() - ({FRACTION} if multiple == 1 else frozenset())
    if multiple is not None and multiple != 1:
        said["multiple"] = multiple
    said |= {"values": fields.values(), "min_length": fields.count("minLength") or 0}
    said["max_length"] = fields.count("maxLength")
    said["low"] = _bound(fields, "minimum", "exclusiveMinimum", 1)
    said["high"] = _bound(fields, "maximum", "exclusiveMaximum", -1)
    patterns: tuple[Pattern, ...] = format_patterns(fields.text("format") or "")
    text = fields.text("pattern")
    if text is not None:
        signed = subschemas.pattern(text, pointer(fields.path, "pattern"))
        patterns = (*signed.required, *patterns)
        said["not_patterns"] = signed.forbidden
    if patterns:
        said["patterns"] = patterns
    return said


def _bound(fields: Fields, inclusive: str, exclusive: str, sign: int) -> Bound | None:
    value = fields.number(inclusive)
    if isinstance(fields.raw.get(exclusive), bool):  # draft 4
        return None if value is None else Bound(value, fields.raw[exclusive])
    bounds = [Bound(value, False)] if value is not None else []
    other = fields.number(exclusive)
    if other is not None:
        bounds.append(Bound(other, True))
    return max(bounds, key=lambda bound: (sign * bound.value, bound.exclusive), default=None)


def _read_array(subschemas: Subschemas, fields: Fields) -> _Said:
    if fields.raw.keys().isdisjoint(_ARRAY_WORDS):
        return {}
    raw, said = fields.raw, dict[str, Any]()
    if isinstance(raw.get("items"), list):  # draft 7 and before
        if "prefixItems" in raw:
            fields.refuse("items", "items is one schema beside prefixItems")
        members = fields.schemas("items") if raw["items"] else []
        rest = _child(subschemas, fields, "additionalItems")
    else:
        members, rest = fields.schemas("prefixItems"), _child(subschemas, fields, "items")
    if not isinstance(raw.get("uniqueItems", False), bool):
        fields.refuse("uniqueItems", "uniqueItems is true or false")
    if "contains" in raw:
        least = fields.count("minContains")
        items = _child(subschemas, fields, "contains")
        said["contains"] = Contains(items, 1 if least is None else least, fields.count("maxContains"))
    unevaluated = _child(subschemas, fields, "unevaluatedItems")
    if unevaluated != ANYTHING:
        start = evaluated_items(subschemas.document, raw, fields.path)
        if start is not None:
            made = Keywords(fields.path, prefix=(ANYTHING,) * start, rest=unevaluated)
            said["also"] = subschemas.made(made)
    return said | {
        "prefix": tuple(subschemas.of(*member) for member in members),
        "rest": rest,
        "min_items": fields.count("minItems") or 0,
        "max_items": fields.count("maxItems"),
        "unique": raw.get("uniqueItems", False),
    }


def _read_object(subschemas: Subschemas, fields: Fields) -> _Said:
    if fields.raw.keys().isdisjoint(_OBJECT_WORDS):
        return {}
    said: _Said = {}
    patterns = []
    for text, (value, path) in fields.named("patternProperties").items():
        patterns.append((_name_pattern(subschemas, text, path), subschemas.of(value, path)))
    unevaluated = _child(subschemas, fields, "unevaluatedProperties")
    if unevaluated != ANYTHING:
        evaluated = evaluated_names(subschemas.document, fields.raw, fields.path)
        if evaluated is not None:
            read = (_name_pattern(subschemas, text, fields.path) for text in evaluated.patterns)
            made = Keywords(
                fields.path,
                names=dict.fromkeys(evaluated.names, ANYTHING),
                name_patterns=tuple((pattern, ANYTHING) for pattern in read),
                other_names=unevaluated,
            )
            said["also"] = subschemas.made(made)
    return said | {
        "names": {name: subschemas.of(*member) for name, member in fields.named("properties").items()},
        "name_patterns": tuple(patterns),
        "other_names": _child(subschemas, fields, "additionalProperties"),
        "required": fields.texts("required"),
        "min_properties": fields.count("minProperties") or 0,
        "max_properties": fields.count("maxProperties"),
        "property_names": _child(subschemas, fields, "propertyNames"),
    }


def _name_pattern(subschemas: Subschemas, text: str, path: str) -> Pattern:
    signed = subschemas.pattern(text, path)
    if len(signed.required) == 1 and not signed.forbidden:
        return signed.required[0]
    required, forbidden = [one.node for one in signed.required], [one.node for one in signed.forbidden]
    return Pattern(f"{text}\n", combined(required, forbidden, path))


def _read_logic(subschemas: Subschemas, fields: Fields) -> _Said:
    if fields.raw.keys().isdisjoint(_LOGIC_WORDS):
        return {}
    also = [_target(subschemas, fields, key) for key in ("$ref", "$dynamicRef") if key in fields]
    also.extend(subschemas.of(*member) for member in fields.schemas("allOf"))
    if "not" in fields:
        also.append(subschemas.negated(_child(subschemas, fields, "not")))
    choices = _dependencies(subschemas, fields)
    if "anyOf" in fields:
        choices.append(tuple(subschemas.of(*member) for member in fields.schemas("anyOf")))
    if "if" in fields and ("then" in fields or "else" in fields):
        condition = _child(subschemas, fields, "if")
        otherwise = conjoin(subschemas.negated(condition), _child(subschemas, fields, "else"))
        choices.append((conjoin(condition, _child(subschemas, fields, "then")), otherwise))
    exclusive = tuple(subschemas.of(*member) for member in fields.schemas("oneOf"))
    return {"also": conjoin(*also), "choices": tuple(choices), "exclusive": (exclusive,) if exclusive else ()}


def _dependencies(subschemas: Subschemas, fields: Fields) -> list[tuple[Conjunction, ...]]:
    """Draft 7's `dependencies` and what 2020-12 made of them: a name is absent, or something else holds."""
    choices: list[tuple[Conjunction, ...]] = []
    for key in ("dependencies", "dependentRequired", "dependentSchemas"):
        for name, (value, path) in fields.named(key).items():
            absent = subschemas.made(Keywords(path, names={name: IMPOSSIBLE}))
            if isinstance(value, list) and key != "dependentSchemas":
                others = Fields({key: value}, fields.path).texts(key)
                choices.append((absent, subschemas.made(Keywords(path, types=frozenset({OBJECT}), required=others))))
            else:
                choices.append((absent, subschemas.of(value, path)))
    return choices
