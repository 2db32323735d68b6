"""The one table from a failure's kind to what clients see of it. So far: the native column.

Codes and texts are Paddler's where it has them (`inference.error.*` of its wire); the other texts are the failure's own
sentence. A kind without a row cannot be sent: a test walks `FailureKind` against this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shared.failures import Failure, FailureKind

GENERATION_DISABLED_TEXT: Final = "Token generation is disabled while the cluster is configured for embeddings"
GRAMMAR_WITH_THINKING_TEXT: Final = "Grammar constraints are incompatible with thinking mode"
AGENT_SILENT_TEXT: Final = (
    "Inference timed out after {item_timeout_ms}ms waiting for next token. "
    "Increase --inference-item-timeout if the prompt requires longer processing."
)


@dataclass(frozen=True, slots=True)
class FailureRow:
    """`status`: HTTP status, or the code of a native `Error` line. `text`: None means the failure's own sentence.

    `native_variant`: the kind is a `GeneratedToken` variant that ends the stream, as on Paddler's wire, not an `Error`.
    """

    status: int
    text: str | None = None
    native_variant: str | None = None


_ROWS: Final[Mapping[FailureKind, FailureRow]] = {
    FailureKind.INVALID_REQUEST: FailureRow(400),
    FailureKind.MODEL_NOT_FOUND: FailureRow(404),
    FailureKind.EMPTY_PROMPT: FailureRow(400),
    FailureKind.PROMPT_TOO_LONG: FailureRow(400),
    FailureKind.GRAMMAR_SYNTAX: FailureRow(400, native_variant="GrammarSyntaxError"),
    FailureKind.GRAMMAR_INITIALIZATION: FailureRow(400, native_variant="GrammarInitializationFailed"),
    FailureKind.GRAMMAR_REJECTED_OUTPUT: FailureRow(500, native_variant="GrammarRejectedModelOutput"),
    FailureKind.GRAMMAR_INCOMPATIBLE_WITH_THINKING: FailureRow(
        400, GRAMMAR_WITH_THINKING_TEXT, "GrammarIncompatibleWithThinking"
    ),
    FailureKind.GENERATION_DISABLED: FailureRow(501, GENERATION_DISABLED_TEXT, "TokenGenerationDisabled"),
    FailureKind.BUFFER_FULL: FailureRow(503, "Buffered requests overflow"),
    FailureKind.WAITED_TOO_LONG: FailureRow(504, "Waiting for available slot timed out"),
    FailureKind.SHUTTING_DOWN: FailureRow(503, "balancer is shutting down"),
    FailureKind.ADAPTER_NOT_LOADED: FailureRow(503),
    FailureKind.AGENT_LOST: FailureRow(502, "Agent controller connection closed"),
    FailureKind.AGENT_SILENT: FailureRow(504, AGENT_SILENT_TEXT),
    FailureKind.ENGINE_FAILED: FailureRow(500),
    FailureKind.SAMPLER_FAILED: FailureRow(500, native_variant="SamplerError"),
    # Nobody reads this one: the connection is aborted. The row is for logs and stories.
    FailureKind.SLOW_CONSUMER: FailureRow(503, "the client reads too slowly"),
    # Its sentence may speak of our insides, so it stays in the log.
    FailureKind.INTERNAL: FailureRow(500, "Internal server error"),
}

# Agents do not know what the route calls the prompt.
_OF_THE_PROMPT: Final = frozenset({FailureKind.EMPTY_PROMPT, FailureKind.PROMPT_TOO_LONG})

ENDED_WITHOUT_TERMINAL: Final = (502, "Response channel closed before terminator")
"""Code and text when a stream ends with neither a finish reason that a client may see nor a failure."""


def row_of(kind: FailureKind) -> FailureRow:
    """The row of a kind."""
    return _ROWS[kind]


def text_of(failure: Failure, *, item_timeout_seconds: float) -> str:
    """What a client reads about this failure; never empty."""
    text = _ROWS[failure.kind].text
    if text is None:
        return _own_sentence(failure)
    return text.replace("{item_timeout_ms}", str(round(item_timeout_seconds * 1000)))


def _own_sentence(failure: Failure) -> str:
    words = failure.message or failure.kind.value.replace("_", " ")
    field = failure.parameter
    if failure.kind not in _OF_THE_PROMPT or not field or words.startswith(f"{field}:"):
        return words
    return f"{field}: {words}"
