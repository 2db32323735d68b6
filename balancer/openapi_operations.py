"""Every route of the three services, for the OpenAPI documents; a test holds these tables against the routers."""

from typing import Any, Final

from pydantic import RootModel

from balancer import openapi_answers as answers
from balancer import openapi_native_answers as native
from balancer.complete_answers import VERSIONS
from balancer.complete_dialect import CompleteBody
from balancer.completions_body import CompletionBody
from balancer.native_dialect import RawPromptBody
from balancer.openapi_document import EVENTS_TYPE, JSON_TYPE, TEXT_TYPE, Answer, Content, Header, Model, Operation
from balancer.openapi_fleet_answers import Ready

TEXT: Final = (Content(TEXT_TYPE),)
STATUS_WORDS: Final = {
    400: "the request will not do; a sentence says why",
    401: "no key that the operator knows",
    404: "not known here",
    408: "the body did not arrive in time",
    412: "another revision than If-Match names",
    413: "the body is too large",
    415: "the body is not application/json",
    422: "a field is missing or of the wrong type",
    429: "too many requests",
    500: "a failure of ours",
    501: "the fleet is configured for embeddings",
    502: "the agent was lost",
    503: "no room, an adapter that is still being loaded, or shutting down; Retry-After says when to try again",
    504: "nothing came in time",
    529: "no room; Retry-After says when to try again",
}


class AnyDocument(RootModel[dict[str, Any]]):
    """Any object."""


def refusals(statuses: tuple[int, ...], *contents: Content) -> tuple[Answer, ...]:
    """Errors of one shape."""
    return tuple(Answer(status, STATUS_WORDS[status], contents) for status in statuses)


def in_json(*models: Model) -> Content:
    """Any one of them."""
    return Content(JSON_TYPE, models)


def in_events(*models: Model) -> Content:
    """Server-sent events whose data is any one of them."""
    return Content(EVENTS_TYPE, models, is_sequence=True)


def document_with(*errors: Content) -> Operation:
    """The document itself."""
    found = Answer(200, "OpenAPI 3.2", (in_json(AnyDocument),))
    return Operation("get", "/openapi.json", "this document", (found, *refusals((401,), *errors)))


HEALTH: Final = Operation("get", "/health", "whether the process lives", (Answer(200, "OK", TEXT),), is_open=True)
READY: Final = Operation(
    "get",
    "/ready",
    "whether any slot serves",
    (Answer(200, "some do", (in_json(Ready),)), Answer(503, "none does", (in_json(Ready),))),
    is_open=True,
)

INFERENCE: Final = (
    HEALTH,
    document_with(*TEXT),
    Operation(
        "post",
        "/api/v1/continue_from_raw_prompt",
        "continue a text; one JSON document a line, failures after the first moment among them",
        (
            Answer(200, "lines", (Content(JSON_TYPE, (native.ResponseLine, native.ErrorLine), is_sequence=True),)),
            *refusals((400, 401, 408, 413, 500, 501), *TEXT),
        ),
        body=RawPromptBody,
    ),
)

_OPENAI_ERRORS: Final = (400, 401, 404, 408, 413, 415, 500, 501, 502, 503, 504)
_XAI_ONLY: Final = (408, 415, 422, 501, 502, 503, 504)
_ANTHROPIC_ONLY: Final = (429, 529)

COMPAT: Final = (
    HEALTH,
    document_with(in_json(answers.OpenAiError)),
    READY,
    Operation(
        "get",
        "/v1/models",
        "the names that the fleet's model answers to",
        (
            Answer(200, "OpenAI's list", (in_json(answers.ServedModels),)),
            *refusals((401,), in_json(answers.OpenAiError)),
        ),
    ),
    Operation(
        "post",
        "/v1/completions",
        "continue token ids",
        (
            Answer(
                200,
                "the answer, or with stream its events",
                (
                    in_json(answers.CompletionAnswer),
                    in_events(answers.CompletionChunk, answers.OpenAiError),
                ),
            ),
            *refusals(_OPENAI_ERRORS, in_json(answers.OpenAiError)),
        ),
        body=CompletionBody,
    ),
    Operation(
        "post",
        "/v1/complete",
        "continue a text, as xAI's and Anthropic's clients ask for it",
        (
            Answer(
                200,
                "the answer, or with stream its events",
                (
                    in_json(answers.CompleteAnswer),
                    in_events(answers.CompleteAnswer, answers.Ping, answers.XaiError, answers.AnthropicError),
                ),
            ),
            *refusals((400, 401, 404, 413, 500), in_json(answers.XaiError, answers.AnthropicError)),
            *refusals(_XAI_ONLY, in_json(answers.XaiError)),
            *refusals(_ANTHROPIC_ONLY, in_json(answers.AnthropicError)),
        ),
        body=CompleteBody,
        headers=(Header("anthropic-version", "Anthropic's habits; without it xAI's", tuple(VERSIONS)),),
    ),
)
