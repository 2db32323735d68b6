"""Facts out of the engine: what one step brought, published in one go."""

from dataclasses import dataclass

from agent.core.commands import MemberKey
from shared.agent_figures import BATCH_TOKENS_EDGES, STEP_SECONDS_EDGES, HistogramCounts
from shared.failures import Failure
from shared.generation import Channel, FinishReason, Usage
from shared.logprobs import LogprobPlace


@dataclass(frozen=True, slots=True)
class TokensCommitted:
    """Tokens that were generated; `text` holds whole characters only and may be empty.

    No token ids at all: text that was held back and belongs to tokens already sent; never empty then.
    """

    key: MemberKey
    first_token_index: int
    token_ids: tuple[int, ...]
    text: str
    channel: Channel
    logprobs: LogprobPlace | None = None  # of the one token, when the request asked for them


@dataclass(frozen=True, slots=True)
class PromptLogprobs:
    """Log-probabilities of the prompt's next tokens, in order; all come before the first token of the answer."""

    key: MemberKey
    places: tuple[LogprobPlace, ...]


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """A chunk of the prompt was evaluated (also when a request that was set aside is evaluated again).

    Members that a few steps in a row left out (waiting, set aside, awaiting a shared prefix) repeat their count as a
    sign of life.
    """

    key: MemberKey
    evaluated_tokens: int


@dataclass(frozen=True, slots=True)
class MemberEnded:
    """The last fact about a request: exactly one of `finish_reason` and `failure`.

    `matched_stop`: the stop string, the pattern or the stop token that ended it.
    """

    key: MemberKey
    finish_reason: FinishReason | None
    usage: Usage
    failure: Failure | None = None
    matched_stop: str | int | None = None


EngineEvent = TokensCommitted | PromptLogprobs | PromptProgress | MemberEnded


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """Idle prefixes in host memory: what is there now, and what was copied out and back so far."""

    stored_tokens: int = 0
    stored_bytes: int = 0
    saved_tokens: int = 0
    restored_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """Figures of the scheduler at the end of a step. Cells and tokens are counts of tokens."""

    running: int  # sequences that hold cells or wait for a shared prefix
    waiting: int  # submitted, not admitted yet
    set_aside: int  # cells taken back; evaluated again when there is room
    used_cells: int
    context_cells: int
    cached_tokens: int  # in idle prefix-cache entries
    steps: int
    evaluated_prompt_tokens: int
    reused_prompt_tokens: int
    generated_tokens: int
    set_aside_total: int
    evicted_tokens: int
    forced_tokens: int = 0  # appended by constraints, not sampled
    drafted_tokens: int = 0  # guessed ahead
    accepted_tokens: int = 0  # guessed right
    store: StoreStatistics = StoreStatistics()


_NO_SECONDS = HistogramCounts.nothing(STEP_SECONDS_EDGES)
_NO_TOKENS = HistogramCounts.nothing(BATCH_TOKENS_EDGES)


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """Measured around the steps since the engine began. began: clock reading, another for each engine."""

    began: float = 0.0
    step_seconds: HistogramCounts = _NO_SECONDS  # commands, plan, decode, commit
    batch_tokens: HistogramCounts = _NO_TOKENS


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step brought: events in order, and the figures after it."""

    events: tuple[EngineEvent, ...]
    statistics: SchedulerStatistics
    engine: EngineStatistics = EngineStatistics()
