"""One error in three shapes."""

import pytest

from balancer.body_parsing import BodyRefused, parse_body
from balancer.compat_errors import (
    CompatError,
    anthropic_error,
    anthropic_status,
    error_of_body,
    error_of_failure,
    openai_error,
    retry_headers,
    xai_error,
)
from balancer.complete_dialect import CompleteBody
from shared.failures import Failure, FailureKind


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_failure_has_a_status_a_sentence_and_all_three_shapes(kind: FailureKind) -> None:
    error = error_of_failure(Failure(kind, "a sentence", "field"), 30.0)
    assert 400 <= error.status < 600
    assert error.code == (None if kind is FailureKind.INVALID_REQUEST else kind.value)
    assert openai_error(error)["error"]["message"] == error.message
    assert xai_error(error)["error"] == error.message
    assert anthropic_error(error)["error"]["message"] == error.message


@pytest.mark.parametrize(
    ("status", "theirs", "word"),
    [
        (400, 400, "invalid_request_error"),
        (401, 401, "authentication_error"),
        (404, 404, "not_found_error"),
        (413, 413, "request_too_large"),
        (415, 400, "invalid_request_error"),
        (429, 429, "rate_limit_error"),
        (500, 500, "api_error"),
        (502, 500, "api_error"),
        (503, 529, "overloaded_error"),
        (504, 500, "api_error"),
    ],
)
def test_anthropics_statuses_and_words(status: int, theirs: int, word: str) -> None:
    error = CompatError(status, "x")
    assert anthropic_status(error) == theirs
    assert anthropic_error(error) == {"type": "error", "error": {"type": word, "message": "x"}}


def test_openais_shape_is_also_sglangs() -> None:
    assert openai_error(CompatError(404, "no", "model", "model_not_found")) == {
        "error": {"message": "no", "type": "invalid_request_error", "param": "model", "code": "model_not_found"},
        "object": "error",
        "message": "no",
        "type": "invalid_request_error",
        "param": "model",
        "code": 404,
    }


def test_another_try_makes_sense_when_it_was_too_much() -> None:
    assert [bool(retry_headers(status)) for status in (400, 429, 500, 503, 504, 529)] == [
        *(False, True, False),
        *(True, False, True),
    ]
    assert 1 <= int(retry_headers(503)["Retry-After"]) <= 30


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b'{"model":"m","prompt":"x"}', 422),
        (b'{"model":"m","prompt":5,"max_tokens_to_sample":1}', 422),
        (b'{"model":"m","prompt":"x","max_tokens_to_sample":1.5}', 422),
        (b'{"model":"m","prompt":"x","max_tokens_to_sample":true}', 422),
        (b'{"model":"m","prompt":"x","max_tokens_to_sample":1,"stop_sequences":"x"}', 422),
        (b'{"model":"m","prompt":"x","max_tokens_to_sample":0}', 400),
        (b'{"model":"m","prompt":"x","max_tokens_to_sample":1,"foo":1}', 400),
        (b'{"model":"m","prompt":"x","max_tokens_to_sample":1,"stop_sequences":[""]}', 400),
        (b"[]", 400),
        (b"{", 400),
    ],
)
def test_missing_and_mistyped_fields_are_422_where_that_is_wanted(data: bytes, status: int) -> None:
    with pytest.raises(BodyRefused) as caught:
        parse_body(data, CompleteBody)
    assert error_of_body(caught.value, is_mistyped_422=True).status == status
    assert error_of_body(caught.value).status == 400
