"""What `unevaluatedProperties` and `unevaluatedItems` leave over, where that does not depend on the value."""

from dataclasses import dataclass, field
from typing import Any

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.document import Document
from agent.constraint.json_schema.limits import MAX_REFERENCE_CHAIN
from agent.constraint.json_schema.text import pointer

_OF_NAMES = ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties")
_OF_ITEMS = ("prefixItems", "items", "contains", "unevaluatedItems")
_IN_PLACE = ("anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies")
# A subschema under `not` evaluates nothing for its parent (2020-12 core, section 7.7.1).


@dataclass(slots=True)
class EvaluatedNames:
    """Names and patterns of the members that some keyword has looked at."""

    names: dict[str, None] = field(default_factory=dict)
    patterns: dict[str, None] = field(default_factory=dict)


def evaluated_names(document: Document, raw: dict[str, Any], path: str) -> EvaluatedNames | None:
    """Names evaluated beside an `unevaluatedProperties`; None: all. Raises SchemaError where the value decides."""
    found = EvaluatedNames()
    own = {key: value for key, value in raw.items() if key != "unevaluatedProperties"}
    for part, _ in _parts(document, own, path, _OF_NAMES):
        if "additionalProperties" in part or "unevaluatedProperties" in part:
            return None
        for key, into in (("properties", found.names), ("patternProperties", found.patterns)):
            if isinstance(part.get(key), dict):
                into.update(dict.fromkeys(part[key]))
    return found


def evaluated_items(document: Document, raw: dict[str, Any], path: str) -> int | None:
    """How many items from the first on are evaluated beside an `unevaluatedItems`; None: all. Raises SchemaError."""
    count = 0
    own = {key: value for key, value in raw.items() if key != "unevaluatedItems"}
    for part, part_path in _parts(document, own, path, _OF_ITEMS):
        if "contains" in part:
            raise SchemaError("unevaluatedItems beside contains cannot be enforced", part_path)
        if "items" in part or "unevaluatedItems" in part:
            return None
        if isinstance(part.get("prefixItems"), list):
            count = max(count, len(part["prefixItems"]))
    return count


def _parts(
    document: Document, raw: dict[str, Any], path: str, words: tuple[str, ...]
) -> list[tuple[dict[str, Any], str]]:
    """The schema and those that apply beside it whatever the value is: allOf and $ref, in depth."""
    found: list[tuple[dict[str, Any], str]] = []
    waiting: list[tuple[Any, str, int]] = [(raw, path, 0)]
    while waiting:
        schema, at, depth = waiting.pop()
        if not isinstance(schema, dict):
            continue
        if depth > MAX_REFERENCE_CHAIN or len(found) > 1_000:
            raise SchemaError("the references are too many to follow", at)
        found.append((schema, at))
        if any(_mentions(schema.get(key), words) for key in _IN_PLACE):
            raise SchemaError(
                f"{words[-1]} beside alternatives that look at members too cannot be enforced; "
                "write additionalProperties or items in each alternative",
                path,
            )
        members = schema.get("allOf")
        if isinstance(members, list):
            waiting.extend((item, pointer(at, "allOf", index), depth + 1) for index, item in enumerate(members))
        if isinstance(schema.get("$ref"), str):
            target = document.resolve(schema["$ref"], at)
            waiting.append((target.value, target.path, depth + 1))
    return found


def _mentions(value: Any, words: tuple[str, ...]) -> bool:
    """Whether a part of the schema may evaluate members; a reference may."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "$ref" in item or "$dynamicRef" in item or any(word in item for word in words):
                return True
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return False
