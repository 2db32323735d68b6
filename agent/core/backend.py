"""The ports between the scheduler's decisions and whatever evaluates tokens (llama.cpp, or a script in tests).

Nothing here imports llama.cpp or numpy: a logits row passes through as an opaque object from `Backend.logits` to
`Sampler.sample`.
"""

from collections.abc import Sequence
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

    `wants_logits` asks for the logits of the run's last token only.
    """

    sequence_id: int
    tokens: Sequence[int]
    first_position: int
    wants_logits: bool


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What one decode evaluates, in batch order. Logits rows come back in the order of the runs that want them."""

    runs: tuple[PlannedRun, ...]

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


class Sampler(Protocol):
    """Draws tokens for one sequence."""

    def observe(self, tokens: Sequence[int]) -> None:
        """Let `tokens` (prompt or answer) count for the penalties."""

    def sample(self, logits: LogitsRow, answer_index: int) -> int | None:
        """The token at `answer_index` of the answer; None when the row allows no token (all -inf, NaN)."""


class SequenceMemory(Protocol):
    """The cells of a context, by sequence. Sequence ids up to HIGHEST_SEQUENCE_ID are possible."""

    def copy_prefix(self, source: int, target: int, tokens: int) -> None:
        """Let sequence `target` share the cells of positions [0, tokens) of `source` (no copy in a unified cache)."""

    def remove_from(self, sequence_id: int, position: int) -> bool:
        """Drop the cells at `position` and above from the sequence; False when this memory cannot be cut there."""

    def evaluated_tokens(self, sequence_id: int) -> int:
        """Positions held by the sequence, counted from 0 (largest position + 1; 0 when empty)."""


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
        """Logits of the `row`-th run of the last plan that wanted them (0-based)."""

    def new_sampler(self, parameters: SamplingParameters, seed: int) -> Sampler: ...

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

    def is_end_of_generation(self, token: int) -> bool: ...
