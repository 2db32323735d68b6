"""Without a key: 401 in the words of the API that was asked."""

import json
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from balancer.compat_refusal import refuse_without_key


def refused(path: str, **headers: str) -> dict[str, Any]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = refuse_without_key(make_mocked_request("POST", path, headers=given))
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["X-Request-Id"]
    assert isinstance(answer.body, bytes)
    document: dict[str, Any] = json.loads(answer.body)
    return document


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/models", "/nowhere"])
def test_openai_and_sglang_clients_both_read_it(path: str) -> None:
    document = refused(path)
    assert document["error"] == {
        "message": "a valid key is required: Authorization: Bearer <key>",
        "type": "authentication_error",
        "param": None,
        "code": "invalid_api_key",
    }
    assert (document["object"], document["code"]) == ("error", 401)


def test_complete_has_two_sentences() -> None:
    assert refused("/v1/complete") == {
        "code": "The request does not have valid authentication credentials for the operation",
        "error": "a valid key is required: Authorization: Bearer <key>, or x-api-key: <key>",
    }


@pytest.mark.parametrize("version", ["2023-06-01", "2023-01-01", "1999-01-01"])
def test_complete_for_anthropics_clients_has_their_object(version: str) -> None:
    document = refused("/v1/complete", anthropic_version=version)
    assert document["type"] == "error"
    assert document["error"]["type"] == "authentication_error"
