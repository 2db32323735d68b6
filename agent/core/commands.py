"""Orders into the engine. They arrive through one inbox and are taken between two steps."""

from collections.abc import Hashable
from dataclasses import dataclass

from agent.core.backend import ConstraintMatcher, LogprobsWanted
from agent.core.stop_rules import StopRules
from shared.failures import Failure
from shared.generation import SamplingParameters

MemberKey = Hashable
"""Names one generation inside an agent: (link number, member, attempt)."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Run a prepared request. The request desk has checked it: 1 <= prompt < request limit, ids in the vocabulary.

    `max_tokens` is at least 1: a request for nothing never reaches the engine.
    """

    key: MemberKey
    prompt: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParameters
    seed: int  # 64 bits
    arrival: int  # grows by one per request; the order of admission, and who is youngest
    priority: int = 0
    constraint: ConstraintMatcher | None = None  # a fresh one, the request's own; the engine's thread walks it
    stops: StopRules | None = None
    logprobs: LogprobsWanted | None = None
    text_before: bytes = b""  # the beginning of a character that the answer goes on with: the end of an echoed prompt
    penalises_answer_only: bool = False  # the prompt does not count for the penalties
    adapter: str | None = None  # by its name; one that the backend has loaded


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop working on the request and end it with `FinishReason.CANCELLED`. Unknown keys are ignored."""

    key: MemberKey


@dataclass(frozen=True, slots=True)
class CancelAll:
    """End every request with this failure (the model or the process goes away)."""

    failure: Failure


EngineCommand = Submit | Cancel | CancelAll
