"""The whole way from a client's schema to one that the library enforces."""

import json
from collections.abc import Callable
from typing import Any

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.assembly import Assembly
from agent.constraint.json_schema.expansion import Expansion
from agent.constraint.json_schema.keywords import Conjunction
from agent.constraint.json_schema.limits import MAX_OUTPUT_CHARACTERS
from agent.constraint.json_schema.reading import read_keywords
from agent.constraint.json_schema.subschemas import Subschemas
from agent.constraint.json_schema.text import read_schema

_WRAPPER_MEMBERS = {"name", "description", "strict", "schema"}


def prepare_schema(schema: str | dict[str, Any]) -> dict[str, Any]:
    """A schema that llguidance compiles under OPTIONS to exactly the client's values, or to fewer, never to more.

    Draft 7 and 2020-12. The result uses only keywords that the library enforces, `$defs` and `$ref` into them. Fewer:
    members come in the order of the schema, whole numbers are written without a fraction or an exponent, control
    characters only by their short escape. Pure: same in, same out. Raises SchemaError with the path of what cannot be
    enforced, or when no value satisfies the schema.
    """
    return _prepared(schema)[1]


def path_of_fault(schema: str | dict[str, Any], is_fault: Callable[[dict[str, Any]], bool | None]) -> str:
    """Where in a schema that was prepared before the innermost part stands that the library does not take.

    `is_fault`: whether a part, as a schema of its own, is refused as the whole one was; None: do not look further.
    """
    assembly, _, place = _prepared(schema)
    seen = {place}
    waiting = assembly.inside(place)
    while waiting:
        inner = waiting.pop(0)
        if inner in seen:
            continue
        seen.add(inner)
        verdict = is_fault(assembly.part(inner))
        if verdict is None:
            break
        if verdict:
            place, waiting = inner, assembly.inside(inner)
    return assembly.path(place)


def _prepared(schema: str | dict[str, Any]) -> tuple[Assembly, dict[str, Any], Conjunction]:
    root = read_schema(schema)
    _refuse_wrapper(root)
    try:
        subschemas = Subschemas(root, read_keywords)
        expansion = Expansion(subschemas)
        assembly = Assembly(expansion)
        prepared = assembly.schema(subschemas.root)
    except RecursionError:
        raise SchemaError("the schema nests too deep; give its parts less depth") from None
    if len(json.dumps(prepared)) > MAX_OUTPUT_CHARACTERS:
        raise SchemaError("the schema's combinations are too many to write out; simplify it")
    return assembly, prepared, expansion.reduction.reduced(subschemas.root)


def _refuse_wrapper(root: Any) -> None:
    """The members that `response_format` puts around a schema are unknown words, and would allow any JSON."""
    if isinstance(root, dict) and isinstance(root.get("schema"), dict) and root.keys() <= _WRAPPER_MEMBERS:
        raise SchemaError("this is what response_format puts around a schema; send the value of its member 'schema'")
