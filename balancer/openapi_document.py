"""An OpenAPI 3.2 document from records of operations. Pure.

Schemas come from pydantic models, those of bodies from the very models that validate them. What streams is told item by
item (`itemSchema`, new in 3.2): events, or the lines of Paddler's wire.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

Json = dict[str, Any]
Model = type[BaseModel]
Schemas = dict[Any, Json]
"""By model."""

JSON_TYPE: Final = "application/json"
TEXT_TYPE: Final = "text/plain"
EVENTS_TYPE: Final = "text/event-stream"
DONE: Final = "[DONE]"
_SCHEMAS: Final = "#/components/schemas/"
_TRIED_AGAIN: Final = frozenset({429, 503, 529})
_RETRY_AFTER: Final[Json] = {"description": "seconds until it is worth another try", "schema": {"type": "integer"}}
_REQUEST_ID: Final[Json] = {"description": "the id in stories and logs", "schema": {"type": "string"}}


@dataclass(frozen=True, slots=True)
class Content:
    """One media type of an answer. `models`: any one of them; none for text."""

    media_type: str
    models: tuple[Model, ...] = ()
    is_sequence: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes with a status; no `contents`: no body."""

    status: int
    what: str
    contents: tuple[Content, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """A request header that is read. `values`: all there are; none: any."""

    name: str
    what: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path; `{name}` in it is text. `is_open`: needs no key, whatever the operator says."""

    method: Literal["get", "post", "put"]
    path: str
    what: str
    answers: tuple[Answer, ...]
    body: Model | None = None
    headers: tuple[Header, ...] = ()
    is_open: bool = False


def openapi_document(title: str, version: str, operations: Sequence[Operation]) -> Json:
    """The whole document. `version`: of our software."""
    names, definitions = models_json_schema(
        [(model, "validation") for model in dict.fromkeys(_models_of(operations))],
        ref_template=f"{_SCHEMAS}{{model}}",
    )
    schemas: Schemas = {model: schema for (model, _), schema in names.items()}
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation, schemas)
    told = definitions.get("$defs", {})
    references = str([paths, told])  # pydantic also defines what only a validator's result holds
    return {
        "openapi": "3.2.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {
            "schemas": {name: one for name, one in told.items() if f"'{_SCHEMAS}{name}'" in references},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _models_of(operations: Sequence[Operation]) -> Iterator[Model]:
    for operation in operations:
        if operation.body is not None:
            yield operation.body
        for answer in operation.answers:
            for content in answer.contents:
                yield from content.models


def _operation(operation: Operation, schemas: Schemas) -> Json:
    words = [word.strip("{}") for word in operation.path.strip("/").split("/")]
    document: Json = {
        "operationId": "_".join([operation.method, *words]).replace(".", "_"),
        "summary": operation.what,
        "security": [] if operation.is_open else [{}, {"key": []}],  # {}: where the operator asks for no key
        "parameters": [*_path_parameters(operation.path), *map(_header, operation.headers)],
        "responses": {
            str(answer.status): {**_headers(operation, answer), **_answer(answer, schemas)}
            for answer in operation.answers
        },
    }
    if operation.body is not None:
        content = {JSON_TYPE: {"schema": schemas[operation.body]}}
        document["requestBody"] = {"required": True, "content": content}
    return document


def _path_parameters(path: str) -> Iterator[Json]:
    for part in path.split("/"):
        if part.startswith("{"):
            schema = {"type": "string", "minLength": 1}
            yield {"name": part.strip("{}"), "in": "path", "required": True, "schema": schema}


def _header(header: Header) -> Json:
    schema: Json = {"type": "string", **({"enum": list(header.values)} if header.values else {})}
    return {"name": header.name, "in": "header", "description": header.what, "schema": schema}


def _headers(operation: Operation, answer: Answer) -> Json:
    headers: Json = {"x-request-id": _REQUEST_ID} if operation.method == "post" else {}
    if answer.status in _TRIED_AGAIN:
        headers["Retry-After"] = _RETRY_AFTER
    return {"headers": headers} if headers else {}


def _answer(answer: Answer, schemas: Schemas) -> Json:
    document: Json = {"description": answer.what}
    if answer.contents:
        document["content"] = {one.media_type: _content(one, schemas) for one in answer.contents}
    return document


def _content(content: Content, schemas: Schemas) -> Json:
    if not content.models:
        return {"schema": {"type": "string"}}
    options = [schemas[model] for model in content.models]
    schema = options[0] if len(options) == 1 else {"anyOf": options}
    if not content.is_sequence:
        return {"schema": schema}
    return {"itemSchema": _event(schema) if content.media_type == EVENTS_TYPE else schema}


def _event(schema: Json) -> Json:
    """A server-sent event as OpenAPI sees it: its data is text that holds a document."""
    document = {"type": "string", "contentMediaType": JSON_TYPE, "contentSchema": schema}
    return {
        "type": "object",
        "properties": {"event": {"type": "string"}, "data": {"anyOf": [{"const": DONE}, document]}},
        "required": ["data"],
    }
