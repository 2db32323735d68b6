"""One word for each way in which a request can fail.

A `Failure` travels from wherever it happens (agent, balancer's machine, a route) to the client; the balancer's
`http_failures` is the one table that turns a kind into a status and a body for each family of routes.
"""

from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    """Why a request did not end with `Done`. The value is the word on the wire, in logs and in metrics."""

    # The request itself is wrong; another try would fail in the same way.
    INVALID_REQUEST = "invalid_request"
    MODEL_NOT_FOUND = "model_not_found"
    EMPTY_PROMPT = "empty_prompt"
    PROMPT_TOO_LONG = "prompt_too_long"
    GRAMMAR_SYNTAX = "grammar_syntax"
    GRAMMAR_INITIALIZATION = "grammar_initialization"
    GRAMMAR_REJECTED_OUTPUT = "grammar_rejected_output"
    GRAMMAR_INCOMPATIBLE_WITH_THINKING = "grammar_incompatible_with_thinking"
    GENERATION_DISABLED = "generation_disabled"

    # The fleet has no place for it now.
    BUFFER_FULL = "buffer_full"
    WAITED_TOO_LONG = "waited_too_long"
    SHUTTING_DOWN = "shutting_down"
    ADAPTER_NOT_LOADED = "adapter_not_loaded"  # the desired state has it, the agent not yet

    # It began and could not be finished.
    AGENT_LOST = "agent_lost"
    AGENT_SILENT = "agent_silent"
    ENGINE_FAILED = "engine_failed"
    SAMPLER_FAILED = "sampler_failed"
    SLOW_CONSUMER = "slow_consumer"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind, one plain sentence that says what to do, and the request field to blame (None: no single field)."""

    kind: FailureKind
    message: str
    parameter: str | None = None
