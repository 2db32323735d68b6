"""The ports between the scheduler's decisions and whatever evaluates tokens (llama.cpp, or a script in tests).

Nothing here imports llama.cpp or numpy: a logits row passes through as an opaque object from `Backend.logits` to
`Sampler.sample`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from shared.generation import SamplingParameters

HIGHEST_SEQUENCE_ID = 255
"""llama.cpp's compiled-in maximum (LLAMA_MAX_SEQ is 256). Rows of a batch need an id below `n_seq_max`; copies may
be parked at any id up to this one."""

LogitsRow = Any
"""A writable float32 array of shape (vocabulary_size,), valid until the next decode."""


class DecodeOutcome(Enum):
    """The five ways in which `llama_decode` returns (llama.h)."""

    DECODED = "decoded"  # 0: every row is in memory
    NO_KV_SLOT = "no_kv_slot"  # 1: memory unchanged
    ABORTED = "aborted"  # 2: finished ubatches stay in memory; read positions again
    INVALID_BATCH = "invalid_batch"  # -1: memory unchanged
    FATAL = "fatal"  # below -1: finished ubatches stay in memory; read positions again


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """Consecutive tokens of one sequence in a batch: `tokens[i]` goes to position `first_position + i`.

    `wants_logits`: of how many of its last tokens (True is one: mostly it is the last one, or none).
    """

    sequence_id: int
    tokens: Sequence[int]
    first_position: int
    wants_logits: int


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What one decode evaluates, in batch order. Rows of logits come back in the order of the tokens they belong to.

    `adapter`: the LoRA adapter that all of it is evaluated with, by name; None: the model as it is.
    """

    runs: tuple[PlannedRun, ...]
    adapter: str | None = None

    @property
    def tokens(self) -> int:
        """Rows of the batch, in tokens."""
        return sum(len(run.tokens) for run in self.runs)


@dataclass(frozen=True, slots=True)
class BackendLimits:
    """What the backend really has, read back after creation (llama.cpp rounds and lowers in silence)."""

    context_cells: int  # the pool shared by all sequences, in tokens (llama_n_ctx)
    batch_tokens: int  # most rows in one decode (llama_n_batch)
    sequence_ids: int  # rows must use ids below this (llama_n_seq_max)
    request_limit_tokens: int  # prompt plus answer of one request: min(context_size as asked, training context)
    vocabulary_size: int
    can_share_prefixes: bool  # sequences can be copied and cut at any position (False: recurrent or hybrid memory)
    can_save_cells: bool = False  # cells can be copied to host memory at its speed (False: they are on a GPU)


@dataclass(frozen=True, slots=True)
class SavedCells:
    """A copy of the cells of positions [start, stop) of a sequence, in host memory. `content` is the backend's own."""

    start: int
    stop: int
    size_bytes: int
    content: Any


class Sampler(Protocol):
    """Draws tokens for one sequence."""

    def observe(self, tokens: Sequence[int]) -> None:
        """Let `tokens` (prompt or answer) count for the penalties."""

    def use_temperature(self, temperature: float | None) -> None:
        """From now on, instead of the one that the request asked for; None: that one again."""

    def sample(self, logits: LogitsRow, answer_index: int) -> int | None:
        """The token at `answer_index` of the answer; None when the row allows no token (all -inf, NaN)."""

    def sure_token(self, logits: LogitsRow) -> int | None:
        """What `sample` gives for this row, as it is and with any other of its entries masked besides; None where that
        cannot be said (it draws, or changes the row first). Leaves the row alone."""

    def forbid(self, logits: LogitsRow, tokens: Collection[int]) -> None:
        """Make these tokens impossible, in place; the row stays as it is when nothing else is possible."""


@dataclass(frozen=True, slots=True)
class LogprobsWanted:
    """What to tell of each token: itself, the `top_count` likeliest, and `token_ids`.

    `prompt_start`: first token of the prompt to tell of; None: of the answer only. `with_text`: pieces of text too.
    """

    top_count: int = 0
    token_ids: tuple[int, ...] = ()
    prompt_start: int | None = None
    with_text: bool = False


class LogprobReading(Protocol):
    """Natural logarithms of the model's own probabilities: log-softmax of a raw row. Outlives the row."""

    def of(self, token: int) -> float:
        """Of one token."""

    @property
    def top(self) -> Sequence[tuple[int, float]]:
        """The likeliest tokens, falling; of equal ones the lower id first."""

    @property
    def asked(self) -> Sequence[tuple[int, float]]:
        """The tokens that were asked for, in that order."""


class ConstraintMatcher(Protocol):
    """One request's walk through its constraint. Owned by one thread at a time; never rolled back.

    Once `failed` is true it stays so, and nothing the matcher says about tokens is of use: a failed constraint may
    well show a mask of nothing but the end (llguidance does), so it is asked for after each call.
    """

    def mask(self, logits: LogitsRow) -> bool:
        """Make -inf, in place, every token that may not follow; false when the constraint failed.

        End-of-generation tokens stay where the output may end here.
        """

    def allows(self, token: int) -> bool:
        """Whether the mask would leave this token, at a tenth of a mask's cost. False is also "ask the mask": of tokens
        that end the generation, and when the constraint failed."""

    def accept(self, token: int) -> bool:
        """The token was sampled (never one that ends the generation); false when it failed or refuses the token."""

    def take_forced(self, limit: int) -> Sequence[int]:
        """The tokens that must follow, at most `limit` (at least 1) of them, accepted already; often none. Never one
        that ends the generation."""

    @property
    def temperature(self) -> float | None:
        """What the constraint wants the next token to be sampled at; None: what the request wants."""

    @property
    def is_finished(self) -> bool:
        """Whether the output is complete and nothing but its end can follow."""

    @property
    def failed(self) -> bool:
        """Whether the constraint broke while it was walked; the output is of no use then."""


class SequenceMemory(Protocol):
    """The cells of a context, by sequence. Sequence ids up to HIGHEST_SEQUENCE_ID are possible."""

    def copy_prefix(self, source: int, target: int, tokens: int) -> None:
        """Let sequence `target` share the cells of positions [0, tokens) of `source` (no copy in a unified cache)."""

    def remove_from(self, sequence_id: int, position: int) -> bool:
        """Drop the cells at `position` and above from the sequence; False when this memory cannot be cut there."""

    def evaluated_tokens(self, sequence_id: int) -> int:
        """Positions held by the sequence, counted from 0 (largest position + 1; 0 when empty)."""

    def save_cells(self, source: int, start: int, stop: int, through: int) -> SavedCells | None:
        """A copy of what the cells of positions [start, stop) of `source` hold; None where there can be none.

        through: an id below `limits.sequence_ids` that holds nothing, before and after.
        """

    def restore_cells(self, saved: SavedCells, target: int, stop: int, through: int) -> bool:
        """Give `target`, which holds the positions before, those of the copy up to `stop` in new cells of its own.
        Needs free cells for the whole copy. False: the memory could not, and is unchanged. `through`: see above."""


class Backend(SequenceMemory, Protocol):
    """One context: its memory of cells and its decode call. Owned by one thread.

    All methods check ids, counts and tokens before they reach the library and raise ValueError: a misuse of
    llama.cpp kills the process and cannot be caught.
    """

    @property
    def limits(self) -> BackendLimits: ...

    def decode(self, plan: BatchPlan) -> DecodeOutcome:
        """Evaluate the plan. Logits are readable only after DECODED, until the next decode."""

    def logits(self, row: int) -> LogitsRow:
        """Logits of the `row`-th token of the last plan for which they were wanted (0-based)."""

    def new_sampler(self, parameters: SamplingParameters, seed: int) -> Sampler: ...

    def read_logprobs(self, logits: LogitsRow, wanted: LogprobsWanted) -> LogprobReading:
        """What the raw row says of each token; to be asked for before anything changes the row."""

    def request_abort(self) -> None:
        """Make a running decode return ABORTED soon. Callable from any thread."""

    def clear_abort(self) -> None:
        """Let the next decode run again."""

    def close(self) -> None:
        """Free the context. Idempotent."""


class Vocabulary(Protocol):
    """Text to tokens and back. Callable from any thread."""

    @property
    def size(self) -> int: ...

    @property
    def adds_bos(self) -> bool:
        """Whether the model's metadata asks for a BOS token in front of each prompt."""

    @property
    def bos_token(self) -> int | None: ...

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of `text`."""

    def token_piece(self, token: int) -> bytes:
        """The bytes the token stands for; empty for control tokens. Raises ValueError outside the vocabulary."""

    def token_text(self, token: int) -> str:
        """The token as the vocabulary spells it, control tokens too. Raises ValueError outside the vocabulary."""

    def is_end_of_generation(self, token: int) -> bool: ...

    @property
    def end_of_generation_tokens(self) -> frozenset[int]:
        """All tokens for which `is_end_of_generation` is true. The first use may take a while (0.1 s)."""
