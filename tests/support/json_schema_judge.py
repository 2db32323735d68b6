"""The judge of JSON Schema tests: `jsonschema`, with patterns as ECMA-262 and as the constraint library means them."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jsonschema
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

_BRACED = re.compile(r"\\x\{([0-9a-f]+)\}")


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Both dialects: `\\x{61}` of the prepared schemas, and the plain ECMA patterns that the tests use."""
    text = _BRACED.sub(lambda found: f"\\U{int(found.group(1), 16):08x}", pattern)
    text = text.replace("[^\\U00000000-\\U0010ffff]", "(?!)")
    # Python's `$` also matches before a newline at the end; ECMA's does not.
    text = re.sub(r"(?<!\\)((?:\\\\)*)\$", r"\1\\Z", text)
    return re.compile(text, re.ASCII)


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _compiled(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    for pattern, subschema in patterns.items() if isinstance(instance, dict) else ():
        for name, value in instance.items():
            if _compiled(pattern).search(name):
                yield from validator.descend(value, subschema)


def _additional(validator: Any, additional: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    patterns = [_compiled(pattern) for pattern in schema.get("patternProperties", {})]
    for name, value in instance.items() if isinstance(instance, dict) else ():
        if name not in schema.get("properties", {}) and not any(pattern.search(name) for pattern in patterns):
            if additional is False:
                yield ValidationError(f"{name!r} is too much")
            elif additional is not True:
                yield from validator.descend(value, additional)


_KEYWORDS = {"pattern": _pattern, "patternProperties": _pattern_properties, "additionalProperties": _additional}
_DRAFTS = {
    "7": extend(jsonschema.Draft7Validator, _KEYWORDS),
    "2020": extend(jsonschema.Draft202012Validator, _KEYWORDS),
}


def judge(schema: Any, draft: str = "2020") -> Any:
    """A validator with `is_valid`. `draft`: "7" or "2020". Of formats it knows those that need no further package."""
    return _DRAFTS[draft](schema, format_checker=jsonschema.FormatChecker(formats=("date", "ipv4", "ipv6", "uuid")))
