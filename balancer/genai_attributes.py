"""The one table of what a span says about a request, under the names of OpenTelemetry's GenAI conventions. Pure.

Those conventions are "Development": names still change. Whoever follows them changes this table and docs/logs.md.
Source: open-telemetry/semantic-conventions, docs/gen-ai/gen-ai-spans.md, as of 7b0c0fe1e. What has no name there is
ours and begins with `steersman.`. Text of prompts, answers and stop strings is opt-in there and never sent here.
"""

from collections.abc import Callable, Sequence
from typing import Final

from balancer.request_record import Outcome, RequestRecord
from shared.generation_options import SamplingOptions

Value = str | bool | int | float | Sequence[str]

OPERATION: Final = "text_completion"
PROVIDER: Final = "steersman"

ATTRIBUTES: Final[tuple[tuple[str, Callable[[RequestRecord], Value | None]], ...]] = (
    ("gen_ai.operation.name", lambda _: OPERATION),
    ("gen_ai.provider.name", lambda _: PROVIDER),
    ("gen_ai.request.model", lambda of: of.model),
    ("gen_ai.request.choice.count", lambda of: of.choices if of.choices > 1 else None),
    ("gen_ai.request.stream", lambda of: of.is_stream),
    ("gen_ai.request.max_tokens", lambda of: of.max_tokens),
    ("gen_ai.request.temperature", lambda of: _sampling(of, lambda one: one.temperature)),
    ("gen_ai.request.top_k", lambda of: _sampling(of, lambda one: one.top_k)),
    ("gen_ai.request.top_p", lambda of: _sampling(of, lambda one: one.top_p)),
    ("gen_ai.request.frequency_penalty", lambda of: _sampling(of, lambda one: one.frequency_penalty)),
    ("gen_ai.request.presence_penalty", lambda of: _sampling(of, lambda one: one.presence_penalty)),
    ("gen_ai.response.id", lambda of: of.request_id),
    ("gen_ai.response.model", lambda of: of.model),
    ("gen_ai.response.finish_reasons", lambda of: [one.value for one in of.finish_reasons] or None),
    ("gen_ai.response.time_to_first_chunk", lambda of: of.time_to_first_token_seconds),
    ("gen_ai.usage.input_tokens", lambda of: of.prompt_tokens),
    ("gen_ai.usage.output_tokens", lambda of: of.generated_tokens),
    ("gen_ai.usage.cache_read.input_tokens", lambda of: of.cached_prompt_tokens),
    ("gen_ai.usage.reasoning.output_tokens", lambda of: of.reasoning_tokens or None),
    ("gen_ai.output.type", lambda _: "text"),
    ("http.response.status_code", lambda of: of.status),
    ("error.type", lambda of: None if of.failure is None else of.failure.value),
    ("steersman.endpoint", lambda of: of.endpoint.value),
    ("steersman.outcome", lambda of: of.outcome.value),
    ("steersman.agents", lambda of: list(of.agent_names) or None),
    ("steersman.queue_wait", lambda of: of.queue_wait_seconds),
    ("steersman.client_request_id", lambda of: of.client_request_id),
)

EVENTS: Final[tuple[tuple[str, Callable[[RequestRecord], float | None]], ...]] = (
    ("steersman.admitted", lambda of: of.admitted_at),
    ("steersman.dispatched", lambda of: of.dispatched_at),
    ("steersman.accepted", lambda of: of.accepted_at),
    ("steersman.first_token", lambda of: of.first_token_at),
    ("steersman.last_token", lambda of: of.last_token_at),
)


def span_name(record: RequestRecord) -> str:
    """`{operation} {model}`, as the conventions say; the model only when one was named and is served."""
    return OPERATION if record.model is None else f"{OPERATION} {record.model}"


def attributes_of(record: RequestRecord) -> dict[str, Value]:
    """Everything in the table that is known."""
    told = ((name, tell(record)) for name, tell in ATTRIBUTES)
    return {name: value for name, value in told if value is not None}


def events_of(record: RequestRecord) -> list[tuple[str, float]]:
    """What came to pass, and when, by the record's clock."""
    told = ((name, tell(record)) for name, tell in EVENTS)
    return [(name, at) for name, at in told if at is not None]


def is_error(record: RequestRecord) -> bool:
    """What a span of a server calls an error: failed, or refused with a status of 500 and above; a client that is wrong
    or leaves is none of ours."""
    is_ours = record.status is not None and record.status >= 500
    return record.outcome is Outcome.FAILED or (record.outcome is Outcome.REFUSED and is_ours)


def _sampling(record: RequestRecord, tell: Callable[[SamplingOptions], float | None]) -> float | None:
    return None if record.sampling is None else tell(record.sampling)
