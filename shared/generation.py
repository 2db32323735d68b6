"""What to generate, how far, and what it cost: the values of one generation, shared by both sides."""

from dataclasses import dataclass
from enum import StrEnum


class FinishReason(StrEnum):
    """Why a generation that succeeded ended."""

    STOP = "stop"  # the model's own end, or a finished constraint
    LENGTH = "length"  # max_tokens, or the request limit (the end of the context)
    CANCELLED = "cancelled"  # the client left; never shown to a client


class Channel(StrEnum):
    """What a piece of generated text is. Raw prompts only have content; the others come with chat templates."""

    CONTENT = "content"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    UNDETERMINABLE = "undeterminable"


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """How the next token is drawn. Defaults are Paddler's.

    temperature <= 0: greedy. top_k <= 0, top_p >= 1, min_p <= 0, penalty_repeat 1.0: off.
    penalty_last_n: window of the penalties in tokens; 0 off, -1 the whole context of the request.
    """

    temperature: float = 0.8
    top_k: int = 80
    top_p: float = 0.8
    min_p: float = 0.05
    penalty_last_n: int = -1
    penalty_frequency: float = 0.0
    penalty_presence: float = 0.8
    penalty_repeat: float = 1.1


@dataclass(frozen=True, slots=True)
class Usage:
    """Exact token counts of one generation. Every counter is in tokens and never negative."""

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    content_tokens: int = 0
    reasoning_tokens: int = 0
    tool_call_tokens: int = 0
    undeterminable_tokens: int = 0

    @property
    def completion_tokens(self) -> int:
        """All generated tokens."""
        return self.content_tokens + self.reasoning_tokens + self.tool_call_tokens + self.undeterminable_tokens
