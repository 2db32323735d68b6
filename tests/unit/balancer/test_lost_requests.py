"""Whoever asks for what is not there is told in one sentence where to go, and never in his own words."""

import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from balancer.lost_requests import (
    COMPAT_MAP,
    HINT_HEADER,
    INFERENCE_MAP,
    MANAGEMENT_MAP,
    ServiceMap,
    answer_natively,
    answer_on_compat,
    sentence_for,
)

RAW_PROMPT = "/api/v1/continue_from_raw_prompt"
COMPAT_ROUTES = "the compatibility service answers POST /v1/completions, POST /v1/complete, GET /v1/models"


@pytest.mark.parametrize(
    ("here", "path", "words"),
    [
        (COMPAT_MAP, "/v1/chat/completions", f"Steersman has no chat; {COMPAT_ROUTES}"),
        (COMPAT_MAP, "/v1/embeddings", f"Steersman has no embeddings; {COMPAT_ROUTES}"),
        (COMPAT_MAP, "/v1/responses", "Steersman has no responses API; "),
        (COMPAT_MAP, RAW_PROMPT, "this path is on the inference service (--inference-addr, usually port 8061); "),
        (COMPAT_MAP, "/metrics", "this path is on the management service (--management-addr, usually port 8060); "),
        (COMPAT_MAP, "/v1/completions", "this path answers only POST"),
        (COMPAT_MAP, "/v1/completions/", "this path has no slash at its end"),
        (COMPAT_MAP, "/nowhere", f"{COMPAT_ROUTES}; GET /openapi.json lists all"),
        (INFERENCE_MAP, "/v1/complete", "this path is on the compatibility service (--compat-addr, usually port 8070)"),
        (INFERENCE_MAP, "/api/v1/continue_from_conversation_history", "Steersman has no chat; the inference service"),
        (INFERENCE_MAP, "/api/v1/generate_embedding_batch", "Steersman has no embeddings; the inference service"),
        (INFERENCE_MAP, "/", f"the inference service answers POST {RAW_PROMPT}; GET /openapi.json lists all"),
        (INFERENCE_MAP, "/api/v1/agent/a/model_metadata", "this path is on the management service"),
        (MANAGEMENT_MAP, "/api/v1/balancer_desired_state", "this path answers only GET and PUT"),
        (MANAGEMENT_MAP, "/x", "GET/PUT /api/v1/balancer_desired_state, GET /metrics, GET /ready; GET /openapi.json"),
    ],
)
def test_the_sentence_says_where_to_go(here: ServiceMap, path: str, words: str) -> None:
    sentence = sentence_for(path, here)
    assert words in sentence
    assert sentence.isascii()  # it goes into a header
    assert sentence.isprintable()


def test_natively_it_is_404_without_a_body() -> None:
    request = make_mocked_request("GET", RAW_PROMPT)
    answer = answer_natively(INFERENCE_MAP, request, web.HTTPMethodNotAllowed("GET", ["POST"]))
    assert (answer.status, answer.body) == (404, None)
    assert answer.headers[HINT_HEADER] == "this path answers only POST"


def test_an_unknown_path_of_compat_has_no_body_either() -> None:
    answer = answer_on_compat(make_mocked_request("POST", "/v1/chat/completions"), web.HTTPNotFound())
    assert (answer.status, answer.body) == (404, None)
    assert "no chat" in answer.headers[HINT_HEADER]


@pytest.mark.parametrize(
    ("path", "headers", "message"),
    [
        ("/v1/completions", {}, lambda document: document["error"]["message"]),
        ("/v1/complete", {}, lambda document: document["error"]),
        ("/v1/complete", {"anthropic-version": "2023-06-01"}, lambda document: document["error"]["message"]),
    ],
)
def test_a_wrong_method_of_compat_is_405_in_the_shape_of_the_path(
    path: str, headers: dict[str, str], message: Any
) -> None:
    request = make_mocked_request("GET", path, headers=headers)
    answer = answer_on_compat(request, web.HTTPMethodNotAllowed("GET", ["POST"]))
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    assert isinstance(answer.body, bytes)
    assert message(json.loads(answer.body)) == "this path answers only POST"


@pytest.mark.parametrize("here", [INFERENCE_MAP, COMPAT_MAP, MANAGEMENT_MAP])
def test_what_is_named_is_there(here: ServiceMap) -> None:
    assert all(here.methods_of(path) for path in here.main)
