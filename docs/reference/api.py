"""docs/api.md out of the OpenAPI documents that the services answer: operations, fields and answers, in tables."""

from collections.abc import Iterator
from typing import Any

from balancer.openapi_document import EVENTS_TYPE, Operation, openapi_document
from balancer.openapi_management import MANAGEMENT
from balancer.openapi_operations import COMPAT, INFERENCE
from docs.reference.markdown import code, table
from docs.reference.schema_words import named, words

Json = dict[str, Any]

SERVICES = (
    ("inference", "127.0.0.1:8061", "--inference-addr", INFERENCE),
    ("compatibility", "127.0.0.1:8070", "--compat-addr", COMPAT),
    ("management", "127.0.0.1:8060", "--management-addr", MANAGEMENT),
)
HEAD = """# Every operation

Made from the OpenAPI documents by `python -m docs.reference`; change the models in `balancer/`, not this page.
Each service answers its own document at `/openapi.json` (OpenAPI 3.2). What the fields mean in use is told in
[raw-prompt.md](raw-prompt.md), [completions.md](completions.md), [complete.md](complete.md) and
[desired-state.md](desired-state.md); what each error means in [failures.md](failures.md).

Where the operator has set keys ([security.md](security.md)), an operation needs one as
`Authorization: Bearer <key>`, unless it says *open*. A field that is not listed is refused by name. "Each line" and
"each event" describe one item of a stream.
"""


def api_page() -> str:
    """The whole page."""
    lines = [HEAD]
    shapes: Json = {}
    for name, address, flag, operations in SERVICES:
        document = openapi_document(name, "", operations)
        lines += [f"## The {name} service", "", f"`{flag}`, by default {address}.", ""]
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                lines += _operation(f"{method.upper()} {path}", operation, document["components"]["schemas"])
        _merge(shapes, document, bodies={_body_name(one) for one in operations})
    lines += ["## Shapes", ""]
    for name in sorted(shapes):
        lines += _shape(name, shapes[name])
    return "\n".join(lines).rstrip() + "\n"


def _body_name(operation: Operation) -> str:
    """Bodies are told at their operations."""
    return operation.body.__name__ if operation.body is not None else ""


def _merge(shapes: Json, document: Json, bodies: set[str]) -> None:
    """Add what a service's answers and bodies refer to. Raises AssertionError if two differ in one."""
    found = document["components"]["schemas"]
    answers = [one["responses"] for methods in document["paths"].values() for one in methods.values()]
    for name, schema in found.items():
        if name not in bodies or f"'#/components/schemas/{name}'" in str([answers, found]):
            assert shapes.setdefault(name, schema) == schema, name


def _operation(title: str, operation: Json, schemas: Json) -> Iterator[str]:
    is_open = not operation["security"]
    yield from [f"### {code(title)}", "", _sentence(operation["summary"]) + (" *Open.*" if is_open else ""), ""]
    parameters = [
        [code(one["name"]), one["in"], words(one["schema"]), one.get("description", "")]
        for one in operation["parameters"]
    ]
    if parameters:
        yield from [*table(["parameter", "in", "takes", ""], parameters), ""]
    if "requestBody" in operation:
        reference = operation["requestBody"]["content"]["application/json"]["schema"]
        yield from [*_fields(schemas[named(reference)]), ""]
    rows = [[status, answer["description"], _contents(answer)] for status, answer in operation["responses"].items()]
    yield from [*table(["status", "", "body"], rows), ""]


def _contents(answer: Json) -> str:
    return "; ".join(_content(media_type, content) for media_type, content in answer.get("content", {}).items())


def _content(media_type: str, content: Json) -> str:
    if "schema" in content:
        return media_type if media_type.startswith("text/") else words(content["schema"])
    schema = content["itemSchema"]
    if media_type != EVENTS_TYPE:
        return f"each line: {words(schema)}"
    document = schema["properties"]["data"]["anyOf"][1]["contentSchema"]
    return f"each event: {words(document)}"


def _fields(schema: Json) -> list[str]:
    rows = []
    for name, field in schema["properties"].items():
        default = "required" if name in schema.get("required", ()) else words(field, only_default=True)
        rows.append([code(name), words(field), default, field.get("description", "")])
    return table(["field", "takes", "default", ""], rows)


def _shape(name: str, schema: Json) -> Iterator[str]:
    yield from [f"### {name}", ""]
    if "description" in schema:
        yield from [_sentence(" ".join(schema["description"].split())), ""]
    if "properties" not in schema:
        told = words(schema)
        yield from [] if told == "object" else [f"{told[:1].upper()}{told[1:]}.", ""]
        return
    required = schema.get("required", ())
    rows = []
    for key, field in schema["properties"].items():
        takes = words(field) if key in required else f"{words(field)}; not always there"
        rows.append([code(key), takes, field.get("description", "")])
    yield from [*table(["key", "is", ""], rows), ""]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
