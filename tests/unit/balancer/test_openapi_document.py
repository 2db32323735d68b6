"""The document is made of the models: what it says of bodies is what the parsers take."""

import json
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

from balancer.body_parsing import BodyRefused, parse_body
from balancer.complete_dialect import CompleteBody
from balancer.completions_body import CompletionBody
from balancer.native_dialect import RawPromptBody
from balancer.openapi_document import Answer, Content, Header, Operation, openapi_document
from shared.desired_state import StrictModel

TOKENS: dict[str, Any] = {"model": "m", "prompt": [5]}
TEXT: dict[str, Any] = {"model": "m", "prompt": "p", "max_tokens_to_sample": 1}
RAW: dict[str, Any] = {"raw_prompt": "p", "max_tokens": 1}


class Told(StrictModel):
    """An answer."""

    word: str


def is_allowed(model: type[BaseModel], body: dict[str, Any]) -> bool:
    operation = Operation("post", "/x", "x", (Answer(204, "done"),), body=model)
    document = openapi_document("t", "1", [operation])
    schema = document["paths"]["/x"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return bool(jsonschema.Draft202012Validator({**schema, "components": document["components"]}).is_valid(body))


def is_taken(model: type[BaseModel], body: dict[str, Any]) -> bool:
    try:
        parse_body(json.dumps(body).encode(), model)
    except BodyRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("model", "body", "wanted"),
    [
        (CompletionBody, TOKENS, True),
        (CompletionBody, {**TOKENS, "prompt": [[5], [6, 7]]}, True),
        (CompletionBody, {**TOKENS, "prompt": "text"}, True),
        (CompletionBody, {**TOKENS, "prompt": ["a", "b"]}, True),
        (CompletionBody, {**TOKENS, "prompt": []}, False),
        (CompletionBody, {**TOKENS, "prompt": [-1]}, False),
        (CompletionBody, {**TOKENS, "prompt": [[5], 6]}, False),
        (CompletionBody, {**TOKENS, "prompt": None}, False),
        (CompletionBody, {**TOKENS, "temperature": None, "stop": None, "logit_bias": None}, True),
        (CompletionBody, {**TOKENS, "stop": "a"}, True),
        (CompletionBody, {**TOKENS, "stop": ["a"] * 33}, False),
        (CompletionBody, {**TOKENS, "stop_regex": "a"}, True),
        (CompletionBody, {**TOKENS, "stop_token_ids": [1, None]}, True),
        (CompletionBody, {**TOKENS, "json_schema": {"type": "object"}}, True),
        (CompletionBody, {**TOKENS, "json_schema": "{}"}, True),
        (CompletionBody, {**TOKENS, "json_schema": 1}, False),
        (CompletionBody, {**TOKENS, "response_format": {"type": "text"}}, True),
        (CompletionBody, {**TOKENS, "response_format": "text"}, False),
        (CompletionBody, {**TOKENS, "logit_bias": {"5": -100}}, True),
        (CompletionBody, {**TOKENS, "logit_bias": {"a": -100}}, False),
        (CompletionBody, {**TOKENS, "top_k": 0}, False),
        (CompletionBody, {**TOKENS, "custom_params": {}}, False),
        (CompletionBody, {**TOKENS, "return_hidden_states": True}, False),
        (CompletionBody, {**TOKENS, "suffix": None}, True),
        (CompletionBody, {**TOKENS, "suffix": "x"}, False),
        (CompletionBody, {**TOKENS, "unknown": 1}, False),
        (CompleteBody, TEXT, True),
        (CompleteBody, {**TEXT, "metadata": {"user_id": None}}, True),
        (CompleteBody, {**TEXT, "max_tokens_to_sample": 0}, False),
        (RawPromptBody, RAW, True),
        (RawPromptBody, {**RAW, "grammar": {"type": "json_schema", "schema": {}}}, True),
        (RawPromptBody, {**RAW, "grammar": {"type": "gbnf"}}, False),
        (RawPromptBody, {**RAW, "sampling": {"top_k": None}}, True),
    ],
)
def test_the_schema_of_a_body_says_what_its_parser_does(model: type[BaseModel], body: Any, wanted: bool) -> None:
    assert (is_allowed(model, body), is_taken(model, body)) == (wanted, wanted)


def test_an_operation_has_its_parameters_answers_and_shapes() -> None:
    events = Content("text/event-stream", (Told,), is_sequence=True)
    lines = Content("application/json", (Told,), is_sequence=True)
    answers = (Answer(200, "well", (events, lines)), Answer(404, "gone"), Answer(400, "bad", (Content("text/plain"),)))
    operation = Operation("get", "/a/{b}", "asks", answers, headers=(Header("c", "which", ("d",)),))
    document = openapi_document("t", "1", [operation])
    told = document["paths"]["/a/{b}"]["get"]
    assert [(one["name"], one["in"]) for one in told["parameters"]] == [("b", "path"), ("c", "header")]
    assert told["parameters"][1]["schema"] == {"type": "string", "enum": ["d"]}
    assert told["responses"]["404"] == {"description": "gone"}
    assert told["responses"]["400"]["content"] == {"text/plain": {"schema": {"type": "string"}}}
    reference = {"$ref": "#/components/schemas/Told"}
    content = told["responses"]["200"]["content"]
    assert content["application/json"] == {"itemSchema": reference}
    assert content["text/event-stream"]["itemSchema"]["properties"]["data"]["anyOf"][1]["contentSchema"] == reference


def test_only_what_is_referred_to_is_told() -> None:
    document = openapi_document("t", "1", [Operation("post", "/x", "x", (Answer(204, "done"),), body=CompletionBody)])
    assert set(document["components"]["schemas"]) == {"CompletionBody", "StreamOptions"}


def test_an_open_operation_needs_no_key() -> None:
    asks, asks_nobody = (
        Operation("get", path, "x", (), is_open=is_open) for path, is_open in (("/a", False), ("/b", True))
    )
    document = openapi_document("t", "1", [asks, asks_nobody])
    assert document["paths"]["/a"]["get"]["security"] == [{}, {"key": []}]
    assert document["paths"]["/b"]["get"]["security"] == []


def test_an_answer_has_the_headers_that_clients_go_by() -> None:
    operation = Operation("post", "/x", "x", (Answer(200, "done"), Answer(503, "full")))
    responses = openapi_document("t", "1", [operation])["paths"]["/x"]["post"]["responses"]
    assert {status: set(one["headers"]) for status, one in responses.items()} == {
        "200": {"x-request-id"},
        "503": {"x-request-id", "Retry-After"},
    }
