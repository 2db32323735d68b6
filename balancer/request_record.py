"""What is known of one request once it is over, and who hears of it: the log line, the metrics, the trace.

A record is made for each request that reaches one of the three generating routes, whatever becomes of it; who shows
no key never reaches one. `balancer.request_account` writes it. Nothing here holds text of a prompt or an answer.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.generation_options import SamplingOptions
from shared.trace_context import TraceContext


class Endpoint(StrEnum):
    """The routes that generate; the value is the word in logs, labels and spans."""

    RAW_PROMPT = "raw_prompt"
    COMPLETIONS = "completions"
    COMPLETE = "complete"


class Outcome(StrEnum):
    """How a request ended; every request has exactly one."""

    ANSWERED = "answered"
    FAILED = "failed"  # an agent had accepted it, or something broke (see BROKEN)
    REFUSED = "refused"  # no agent accepted it: the request is wrong, or there was no place for it
    CANCELLED = "cancelled"  # the client left


BROKEN: Final = frozenset(
    {
        FailureKind.AGENT_LOST,
        FailureKind.AGENT_SILENT,
        FailureKind.ENGINE_FAILED,
        FailureKind.SAMPLER_FAILED,
        FailureKind.SLOW_CONSUMER,
        FailureKind.INTERNAL,
    }
)
"""Never a refusal: with these it had begun, even if an agent had not yet said so."""


@dataclass(slots=True)
class RequestRecord:
    """One request. Times are seconds of one monotonic clock; None: it never came to that.

    `arrived_at`: its head was read. `admitted_at`: its body was good, so that it may wait for a slot. `dispatched_at`:
    it first went to an agent. `accepted_at`: an agent first said that it runs. Tokens: a prompt counts once, however
    many answers were asked for; what a client did not wait for is counted as far as it was relayed, as content.
    `status`: of the answer; None when the client left before there was one. A stream that failed later has 200.
    `client_request_id`: what the client itself calls it in its `x-request-id`. `model`: as the client named one that is
    served; only the compatible APIs name one. `sampling`: None where the desired state's holds.
    """

    request_id: str
    endpoint: Endpoint
    arrived_at: float
    admitted_at: float | None = None
    dispatched_at: float | None = None
    accepted_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    ended_at: float = 0.0
    agent_names: list[str] = field(default_factory=list)
    choices: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    content_tokens: int = 0
    reasoning_tokens: int = 0
    tool_call_tokens: int = 0
    undeterminable_tokens: int = 0
    status: int | None = None
    outcome: Outcome = Outcome.CANCELLED
    failure: FailureKind | None = None
    finish_reasons: list[FinishReason] = field(default_factory=list)
    is_stream: bool = False
    max_tokens: int | None = None
    sampling: SamplingOptions | None = None
    model: str | None = None
    trace: TraceContext | None = None
    client_request_id: str | None = None

    @property
    def generated_tokens(self) -> int:
        """Of every choice and kind."""
        return self.content_tokens + self.reasoning_tokens + self.tool_call_tokens + self.undeterminable_tokens

    @property
    def trace_id(self) -> str | None:
        """32 hexadecimal digits, when the client sent a trace or traces are exported."""
        return None if self.trace is None else self.trace.trace_id

    @property
    def duration_seconds(self) -> float:
        """From its head to its end."""
        return self.ended_at - self.arrived_at

    @property
    def queue_wait_seconds(self) -> float | None:
        """How long it waited for a slot, with or without luck; None: it was never admitted."""
        if self.admitted_at is None:
            return None
        return max(0.0, (self.ended_at if self.dispatched_at is None else self.dispatched_at) - self.admitted_at)

    @property
    def time_to_first_token_seconds(self) -> float | None:
        """From its head to the first token of any choice."""
        return None if self.first_token_at is None else self.first_token_at - self.arrived_at

    @property
    def time_per_output_token_seconds(self) -> float | None:
        """The mean gap between its tokens; None with fewer than two, or several choices, which overlap."""
        if self.first_token_at is None or self.last_token_at is None or self.choices != 1 or self.generated_tokens < 2:
            return None
        return (self.last_token_at - self.first_token_at) / (self.generated_tokens - 1)


def outcome_of(record: RequestRecord, *, has_left: bool) -> Outcome:
    """`has_left`: the client. One that leaves while it is told of a failure changes nothing any more."""
    failure = record.failure
    if failure is None:
        return Outcome.CANCELLED if has_left else Outcome.ANSWERED
    return Outcome.REFUSED if record.accepted_at is None and failure not in BROKEN else Outcome.FAILED


class RequestObserver(Protocol):
    """Hears of every request: `began` and `ended` once each. All of it is synchronous and quick."""

    def began(self, endpoint: Endpoint) -> None: ...

    def tokens_relayed(self, endpoint: Endpoint, gap_seconds: float, tokens: int) -> None:
        """A read of one choice's stream brought tokens, `gap_seconds` after the read before it that did. This is the
        token path: below 2 us."""

    def ended(self, record: RequestRecord) -> None: ...


class QuietObserver:
    """Hears nothing; the base of observers that want only some of it."""

    def began(self, endpoint: Endpoint) -> None:
        """Nothing."""

    def tokens_relayed(self, endpoint: Endpoint, gap_seconds: float, tokens: int) -> None:
        """Nothing; an observer that does not override this is never called on the token path."""

    def ended(self, record: RequestRecord) -> None:
        """Nothing."""
