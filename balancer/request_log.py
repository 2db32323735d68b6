"""One line at each request's end, and, for debugging only, one with its prompt at its beginning."""

import logging
from typing import Any, Final

from balancer.generation_request import GenerationRequest
from balancer.request_record import Outcome, QuietObserver, RequestRecord
from shared.log_fields import fields

MAX_PROMPT_CHARACTERS: Final = 1000
MAX_PROMPT_TOKENS: Final = 200
_TOKEN_BYTES: Final = 4

_log = logging.getLogger(__name__)


class RequestLines(QuietObserver):
    """The line of docs/logs.md: `info`, or `warning` for a request that failed."""

    def ended(self, record: RequestRecord) -> None:
        """Write it. No text of the prompt or the answer is in a record."""
        level = logging.WARNING if record.outcome is Outcome.FAILED else logging.INFO
        if _log.isEnabledFor(level):
            _log.log(
                level,
                "request %s %s",
                record.request_id,
                record.outcome.value,
                extra=fields(**request_fields(record)),
            )


def request_fields(record: RequestRecord) -> dict[str, Any]:
    """Every field, always, in the order of docs/logs.md."""
    return {
        "event": "request_ended",
        "request_id": record.request_id,
        "endpoint": record.endpoint.value,
        "outcome": record.outcome.value,
        "failure": None if record.failure is None else record.failure.value,
        "status": record.status,
        "agents": list(record.agent_names),
        "model": record.model,
        "stream": record.is_stream,
        "choices": record.choices,
        "prompt_tokens": record.prompt_tokens,
        "cached_prompt_tokens": record.cached_prompt_tokens,
        "generated_tokens": record.generated_tokens,
        "queue_wait_seconds": _rounded(record.queue_wait_seconds),
        "time_to_first_token_seconds": _rounded(record.time_to_first_token_seconds),
        "duration_seconds": _rounded(record.duration_seconds),
        "finish_reasons": [one.value for one in record.finish_reasons],
        "trace_id": record.trace_id,
        "span_id": None if record.trace is None else record.trace.span_id,
        "client_request_id": record.client_request_id,
    }


def warn_that_prompts_are_logged() -> None:
    """Once, at the start."""
    _log.warning(
        "PROMPTS ARE LOGGED: the beginning of every prompt goes into this log, for whoever reads it. This is for "
        "debugging; start the balancer without --log-prompts when you are done."
    )


def log_prompt(request: GenerationRequest) -> None:
    """The beginning of each prompt that is admitted, each prompt once."""
    prompts = dict.fromkeys(request.prompt_of(member) for member in request.members)
    for text, packed in prompts:
        shown = fields(event="prompt", request_id=request.request_id, prompt=_beginning(text, packed))
        _log.info("request %s asks", request.request_id, extra=shown)


def _beginning(text: str | None, packed: bytes | None) -> str:
    if text is not None:
        return text if len(text) <= MAX_PROMPT_CHARACTERS else f"{text[:MAX_PROMPT_CHARACTERS]}..."
    count = len(packed or b"") // _TOKEN_BYTES
    ids = memoryview(packed or b"")[: min(count, MAX_PROMPT_TOKENS) * _TOKEN_BYTES]
    told = " ".join(str(int.from_bytes(ids[at : at + 4], "little")) for at in range(0, len(ids), _TOKEN_BYTES))
    return f"{count} token ids: {told}{'...' if count > MAX_PROMPT_TOKENS else ''}"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
