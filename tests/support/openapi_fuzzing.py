"""Schemathesis over a service's own OpenAPI document: made-up requests, and every answer held against the document.

statuses = hold_against_document(document, "http://127.0.0.1:1234", fit)
assert statuses["POST /v1/completions"][200] >= 20

It blocks, so it wants a thread. Raises schemathesis' failures.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import jsonschema
import requests
import schemathesis
from schemathesis import Case, CheckContext, GenerationMode, Response
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support import budgets

EXAMPLES = max(100, budgets.current().hypothesis_examples)
WRONG_EXAMPLES = 25
ANSWER_SECONDS = 30.0

Json = dict[str, Any]
Fit = Callable[[Case, int], None]
"""Changes a made-up request, of which it is told the number, so that some get past the first check."""


def sequence_conformance(ctx: CheckContext, response: Response, case: Case) -> bool | None:
    """What schemathesis leaves out: the documents inside of events, and lines."""
    document = case.operation.schema.raw_schema
    media_type = response.headers["content-type"][0].partition(";")[0] if "content-type" in response.headers else ""
    answers = document["paths"][case.operation.path][case.operation.method]["responses"]
    content = answers.get(str(response.status_code), {}).get("content", {}).get(media_type, {})
    if "itemSchema" in content:
        check_items(document, content["itemSchema"], items_of(response.content.decode(), media_type))
    return None


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    sequence_conformance,
]


def items_of(text: str, media_type: str) -> Iterator[Any]:
    """Lines as documents, events as OpenAPI sees them; comments are none."""
    if media_type != "text/event-stream":
        yield from map(json.loads, text.splitlines())
        return
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            yield fields


def check_items(document: Json, schema: Json, items: Iterator[Any]) -> None:
    """Raises AssertionError. JSON Schema itself never looks into `contentSchema`."""
    found = list(items)
    assert found, "an answer without any item"
    for item in found:
        problems = list(_problems(document, schema, item))
        if set(schema.get("properties", ())) == {"event", "data"} and item["data"] != "[DONE]":
            inner = schema["properties"]["data"]["anyOf"][1]["contentSchema"]
            problems += _problems(document, inner, json.loads(item["data"]))
        assert not problems, problems


def _problems(document: Json, schema: Json, item: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator({**schema, "components": document["components"]})
    return [error.message for error in validator.iter_errors(item)]


def hold_against_document(document: Json, url: str, fit: Fit) -> dict[str, Counter[int]]:
    """The statuses of each operation's answers. Endless streams and websockets are left out."""
    found: dict[str, Counter[int]] = {}
    schema = schemathesis.openapi.from_dict(document)
    with requests.Session() as session:
        for result in schema.get_all_operations():
            operation = result.ok()  # type: ignore[union-attr]
            if _is_endless(document["paths"][operation.path][operation.method]):
                continue
            statuses = found[operation.label] = Counter()
            for mode, examples in ((GenerationMode.POSITIVE, EXAMPLES), (GenerationMode.NEGATIVE, WRONG_EXAMPLES)):
                if mode is GenerationMode.NEGATIVE and not operation.body:
                    continue
                _ask(operation.as_strategy(mode), examples, url, session, statuses, fit)
    return found


def ask_each_once(document: Json, url: str) -> dict[str, int]:
    """The status of each operation for a bare request without a body; a documented failure of ours is none here."""
    found = {}
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()  # type: ignore[union-attr]
        names = [one.name for one in operation.path_parameters]
        case = operation.Case(path_parameters=dict.fromkeys(names, "x"))
        response = case.call(base_url=url, timeout=ANSWER_SECONDS)
        found[operation.label] = response.status_code
        case.validate_response(response, checks=[one for one in CHECKS if one is not not_a_server_error])
    return found


def _ask(cases: Any, examples: int, url: str, session: requests.Session, statuses: Counter[int], fit: Fit) -> None:
    settings = hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    @settings
    @hypothesis.given(cases)
    def ask(case: Case) -> None:
        fit(case, statuses.total())
        response = case.call(base_url=url, session=session, timeout=ANSWER_SECONDS)
        statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    ask()


def _is_endless(operation: Json) -> bool:
    answers = operation["responses"]
    return "101" in answers or list(answers.get("200", {}).get("content", {})) == ["text/event-stream"]
