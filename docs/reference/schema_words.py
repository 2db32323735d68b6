"""A JSON schema of the OpenAPI documents as a few words: `integer 1 to 128`, `list of text or null`. Pure.

A keyword that it does not know is an error, so that no limit is left out in silence.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from docs.reference.markdown import code

Json = dict[str, Any]

_REFERENCE = "#/components/schemas/"
_SAYS_NOTHING = {"title", "description", "default"}
_FORMAT_LIMITS = {limit for bits in (31, 32, 63, 64) for limit in (2**bits - 1, -(2**bits))}
"""Limits of the number formats, which nobody needs to be told."""


def words(schema: Json, *, only_default: bool = False) -> str:
    """What a value may be; with `only_default` what it is when it is left out."""
    if only_default:
        return code(json.dumps(schema["default"])) if "default" in schema else ""
    told = {name: value for name, value in schema.items() if name not in _SAYS_NOTHING}
    if "$ref" in told:
        name = named(told)
        return f"[{name}](#{name.lower()})"
    for union in ("anyOf", "oneOf"):
        if union in told:
            return " or ".join(dict.fromkeys(words(one) for one in told[union]))
    if "const" in told:
        return code(json.dumps(told["const"]))
    if "enum" in told:
        return ", ".join(code(json.dumps(one)) for one in told["enum"])
    return _KINDS[told.pop("type", "any")](told)


def named(reference: Json) -> str:
    """The name that a reference has."""
    return str(reference["$ref"]).removeprefix(_REFERENCE)


def _integer(told: Json) -> str:
    return "integer" + _range(told)


def _number(told: Json) -> str:
    return "number" + _range(told)


def _range(told: Json) -> str:
    lowest, highest = told.pop("minimum", None), told.pop("maximum", None)
    above, below = told.pop("exclusiveMinimum", None), told.pop("exclusiveMaximum", None)
    except_for = told.pop("not", None)
    assert not told, told
    assert below is None, "no words for an upper limit that is excluded"
    parts = []
    if above is not None:
        parts.append(f"over {above:,}")
    if lowest is not None and lowest not in _FORMAT_LIMITS:
        parts.append(f"from {lowest:,}")
    if highest is not None and highest not in _FORMAT_LIMITS:
        parts.append(f"to {highest:,}")
    if except_for is not None:
        parts.append(f"but not {except_for['const']}")
    return "".join(f" {part}" for part in parts).replace(".0", "")


def _text(told: Json) -> str:
    pattern = told.pop("pattern", None)
    size = _size(told, "Length", "characters")
    told.pop("contentMediaType", None)
    assert not told, told
    return "text" + size + (f" that matches {code(pattern)}" if pattern else "")


def _array(told: Json) -> str:
    if "prefixItems" in told:
        return f"[{'; '.join(words(one) for one in told['prefixItems'])}]"
    size = _size(told, "Items", "entries")
    items = told.pop("items", {})
    assert not told, told
    return f"list of {_grouped(items)}{size}"


def _object(told: Json) -> str:
    size = _size(told, "Properties", "keys")
    names, patterns = told.pop("propertyNames", None), told.pop("patternProperties", None)
    values = told.pop("additionalProperties", True)
    assert not told, told
    if patterns:
        values = next(iter(patterns.values()))
    of = f" of {_grouped(values)}" if isinstance(values, dict) and values else ""
    keys = f" by {words(names)}" if names and "$ref" in names else ""
    return f"object{of}{keys}{size}"


def _grouped(schema: Json) -> str:
    """Within another schema's words."""
    inner = re.sub(r"^(integer|number|text|list|object|boolean)\b", r"\1s", words(schema))
    return f"({inner})" if " or " in inner or (inner.endswith(")") and "](" not in inner) else inner


def _size(told: Json, noun: str, unit: str) -> str:
    least, most = told.pop(f"min{noun}", 0), told.pop(f"max{noun}", None)
    if least == most:
        return f" ({least} {unit.removesuffix('s') if least == 1 else unit})"
    if most is not None:
        return f" ({least} to {most:,} {unit})" if least else f" (up to {most:,} {unit})"
    return " (not empty)" if least == 1 else f" (from {least} {unit})" if least else ""


_KINDS: dict[str, Callable[[Json], str]] = {
    "integer": _integer,
    "number": _number,
    "string": _text,
    "array": _array,
    "object": _object,
    "boolean": lambda told: "boolean",
    "null": lambda told: "null",
    "any": lambda told: "anything",
}
