"""Errors of the compatibility service, before a stream begins and within it: one value, one shape for each API. Pure.

Statuses are those of `http_failures`; Anthropic's API has its own.
"""

from dataclasses import dataclass
from typing import Any, Final

from balancer.body_parsing import BodyRefused
from balancer.http_failures import ENDED_WITHOUT_TERMINAL, row_of, text_of
from shared.failures import Failure, FailureKind

Json = dict[str, Any]

_RETRY_AFTER_SECONDS: Final = 1  # a slot may be free again at once
_RETRIED: Final = frozenset({429, 503, 529})


@dataclass(frozen=True, slots=True)
class CompatError:
    """`code`: one word for programs, if there is a better one than the status."""

    status: int
    message: str
    parameter: str | None = None
    code: str | None = None


ENDED_SILENTLY: Final = CompatError(*ENDED_WITHOUT_TERMINAL)


def error_of_failure(failure: Failure, item_timeout_seconds: float) -> CompatError:
    """What a client reads about a failure."""
    code = None if failure.kind is FailureKind.INVALID_REQUEST else failure.kind.value
    text = text_of(failure, item_timeout_seconds=item_timeout_seconds)
    return CompatError(row_of(failure.kind).status, text, failure.parameter, code)


def error_of_body(refused: BodyRefused, *, is_mistyped_422: bool = False) -> CompatError:
    """`is_mistyped_422`: missing and mistyped fields have a status of their own."""
    fault = refused.fault or ""
    is_mistyped = fault in ("missing", "int_from_float") or fault.endswith("_type")
    status = 422 if is_mistyped_422 and is_mistyped else refused.status
    return CompatError(status, refused.sentence, refused.field)


def retry_headers(status: int) -> dict[str, str]:
    """When another try makes sense, if it does."""
    return {"Retry-After": str(_RETRY_AFTER_SECONDS)} if status in _RETRIED else {}


# OpenAI's clients read `error`, SGLang's the top level


def openai_error(error: CompatError) -> Json:
    """Both forms at once; the inner `code` is a word or null, the outer one the status."""
    kind = _OPENAI_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    inner = {"message": error.message, "type": kind, "param": error.parameter, "code": error.code}
    return {"error": inner, "object": "error", **inner, "code": error.status}


_OPENAI_TYPES: Final = {401: "authentication_error", 429: "rate_limit_error", 501: "invalid_request_error"}


# xAI


def xai_error(error: CompatError) -> Json:
    """Two sentences: which sort of error, and what is wrong."""
    return {"code": _XAI_CODES.get(error.status, "Internal error"), "error": error.message}


_XAI_CODES: Final = {
    400: "Client specified an invalid argument",
    401: "The request does not have valid authentication credentials for the operation",
    404: "Some requested entity was not found",
    405: "Client specified an invalid argument",
    408: "Client specified an invalid argument",
    413: "Client specified an invalid argument",
    415: "Client specified an invalid argument",
    422: "Failed to deserialize the JSON body into the target type",
    429: "Some resource has been exhausted",
    501: "Operation is not implemented or not supported",
    502: "The service is currently unavailable",
    503: "The service is currently unavailable",
    504: "The deadline expired before the operation could complete",
}


# Anthropic


def anthropic_status(error: CompatError) -> int:
    """Its API has fewer statuses, and 529 for one that is overloaded."""
    if error.status in (401, 404, 413, 429):
        return error.status
    if error.status < 500:
        return 400
    return 529 if error.status == 503 else 500


def anthropic_error(error: CompatError) -> Json:
    """Its error object, for an answer and for an `error` event alike."""
    kind = _ANTHROPIC_TYPES[anthropic_status(error)]
    return {"type": "error", "error": {"type": kind, "message": error.message}}


_ANTHROPIC_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
