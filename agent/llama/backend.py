"""The `Backend` port over llama.cpp: every id, count and token is checked here, since a misuse kills the process."""

import ctypes
import logging
from collections.abc import Callable, Mapping

import llama_cpp
import numpy as np
import numpy.typing as npt

from agent.core.backend import (
    HIGHEST_SEQUENCE_ID,
    BackendLimits,
    BatchPlan,
    DecodeOutcome,
    LogprobReading,
    LogprobsWanted,
    PlannedRun,
    Sampler,
    SavedCells,
)
from agent.llama.adapters import SCALE
from agent.llama.batch import LlamaBatch
from agent.llama.cell_copies import CellCopies
from agent.llama.context import LlamaContext
from agent.sampling.logprobs import RowLogprobs
from shared.generation import SamplingParameters

logger = logging.getLogger(__name__)

Logits = npt.NDArray[np.float32]
NewSampler = Callable[[SamplingParameters, int], Sampler]

_TO_THE_END = -1
_NO_ROWS: Logits = np.empty((0, 0), dtype=np.float32)


class LlamaBackend:
    """One context with its batch. Owned by one thread, save for `request_abort` and `clear_abort`."""

    def __init__(
        self, context: LlamaContext, new_sampler: NewSampler, adapters: Mapping[str, object] | None = None
    ) -> None:
        """`adapters`: loaded for the context's model before the context was made, by name."""
        model = context.model
        self._context = context
        self._new_sampler = new_sampler
        self._copies = CellCopies(context)
        self._batch = LlamaBatch(context.batch_tokens)
        self._adapters = dict(adapters or {})
        self._adapter: str | None = None  # the one that the context evaluates with
        self._rows = _NO_ROWS
        self._vocabulary_size = model.vocabulary_size
        self._limits = BackendLimits(
            context_cells=context.cells,
            batch_tokens=context.batch_tokens,
            sequence_ids=context.sequence_ids,
            request_limit_tokens=context.request_limit_tokens,
            vocabulary_size=model.vocabulary_size,
            can_share_prefixes=model.can_cut_sequences,
            can_save_cells=model.can_cut_sequences and context.cells_in_host_memory,
        )

    def __repr__(self) -> str:
        limits = self._limits
        return f"<LlamaBackend {limits.context_cells} cells, batch {limits.batch_tokens}, {limits.sequence_ids} ids>"

    @property
    def limits(self) -> BackendLimits:
        """What the context really has."""
        return self._limits

    # Decoding

    def decode(self, plan: BatchPlan) -> DecodeOutcome:
        """Evaluate the plan. Logits are readable only after DECODED, until the next decode.

        Raises ValueError for a plan that llama.cpp would refuse, accept in silence, or abort on.
        """
        self._rows = _NO_ROWS  # after a failed decode llama.cpp still shows the logits of the one before
        self._check(plan)
        self._use_adapter(plan.adapter)
        outputs = self._batch.fill(plan)
        code = llama_cpp.llama_decode(self._context.pointer, self._batch.structure)
        if code == 0:
            self._rows = self._read_rows(outputs)
        return _outcome(code)

    def logits(self, row: int) -> Logits:
        """Logits of the `row`-th token of the last plan that has some: a writable view, shape (vocabulary,).

        Raises ValueError when the last decode did not compute that row.
        """
        if not 0 <= row < len(self._rows):
            raise ValueError(f"the last decode left {len(self._rows)} rows of logits; row {row} is not one of them")
        values: Logits = self._rows[row]
        return values

    def new_sampler(self, parameters: SamplingParameters, seed: int) -> Sampler:
        """A sampler for one sequence."""
        return self._new_sampler(parameters, seed)

    def read_logprobs(self, logits: Logits, wanted: LogprobsWanted) -> LogprobReading:
        """What the raw row says of each token."""
        return RowLogprobs(logits, wanted)

    def warm_up(self) -> None:
        """Evaluate two tokens once, so that the first request does not pay for page faults. Failures are logged."""
        tokens = (0, 0)[: self._limits.batch_tokens]
        run = PlannedRun(self._limits.sequence_ids - 1, tokens, first_position=0, wants_logits=True)
        llama_cpp.llama_set_warmup(self._context.pointer, True)  # a mixture of experts touches all of them
        try:
            outcome = self.decode(BatchPlan((run,)))
            if outcome is not DecodeOutcome.DECODED:
                logger.warning("the warm-up decode ended as %s", outcome.value)
            elif len(tokens) > 1 and self._limits.can_save_cells:
                self._copies.measure(run.sequence_id, through=0)
        finally:
            llama_cpp.llama_set_warmup(self._context.pointer, False)
            self._rows = _NO_ROWS
            self.clear()

    # Sequence memory

    def copy_prefix(self, source: int, target: int, tokens: int) -> None:
        """Let sequence `target` share the cells of positions [0, tokens) of `source` (no copy in a unified cache)."""
        _check_sequence(source)
        _check_sequence(target)
        if source == target or tokens < 0:
            raise ValueError(f"cannot copy {tokens} tokens of sequence {source} to sequence {target}")
        if not self._limits.can_share_prefixes:
            raise ValueError("this model's memory cannot share prefixes")
        if tokens > 0:
            llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, tokens)

    def remove_from(self, sequence_id: int, position: int) -> bool:
        """Drop the cells at `position` and above from the sequence; False when this memory cannot be cut there."""
        _check_sequence(sequence_id)
        if position < 0:
            raise ValueError(f"position {position} is negative")
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, sequence_id, position, _TO_THE_END))

    def evaluated_tokens(self, sequence_id: int) -> int:
        """Positions held by the sequence, counted from 0 (largest position + 1; 0 when empty)."""
        _check_sequence(sequence_id)
        return int(llama_cpp.llama_memory_seq_pos_max(self._memory, sequence_id)) + 1

    def save_cells(self, source: int, start: int, stop: int, through: int) -> SavedCells | None:
        """A copy of what the cells of positions [start, stop) of `source` hold; None when the memory forgot some."""
        _check_sequence(source)
        if not 0 <= start < stop <= self.evaluated_tokens(source):
            raise ValueError(f"sequence {source} has no tokens {start} to {stop}")
        self._check_through(through)
        return self._copies.save(source, start, stop, through)

    def restore_cells(self, saved: SavedCells, target: int, stop: int, through: int) -> bool:
        """Append to `target` what it lacks of the copy up to `stop`; False when there is no room for all of it."""
        _check_sequence(target)
        held = self.evaluated_tokens(target)
        if not saved.start <= held < stop <= saved.stop:
            raise ValueError(f"sequence {target} holds {held} tokens; {saved.start} to {stop} do not go on there")
        self._check_through(through)
        return self._copies.restore(saved, target, stop, through)

    def clear(self) -> None:
        """Forget every sequence."""
        llama_cpp.llama_memory_clear(self._memory, False)

    # Abort and end

    def request_abort(self) -> None:
        """Make a running decode return ABORTED soon, and any later one until `clear_abort`. From any thread."""
        self._context.abort.set()

    def clear_abort(self) -> None:
        """Let the next decode run again."""
        self._context.abort.clear()

    def close(self) -> None:
        """Free the context (not the model). Idempotent. Views of logits become invalid."""
        self._rows = _NO_ROWS
        self._context.close()

    # Private

    @property
    def _memory(self) -> int:
        """The memory handle; raises RuntimeError once the context is closed."""
        _ = self._context.pointer
        return self._context.memory

    def _use_adapter(self, name: str | None) -> None:
        """Only when it changes: llama.cpp then measures its graphs anew."""
        if name == self._adapter:
            return
        loaded = [] if name is None else [self._adapters[name]]
        pointers = (llama_cpp.llama_adapter_lora_p_ctypes * len(loaded))(*loaded)
        scales = (ctypes.c_float * len(loaded))(*[SCALE] * len(loaded))
        if llama_cpp.llama_set_adapters_lora(self._context.pointer, pointers, len(loaded), scales) != 0:
            raise RuntimeError("llama.cpp refused an adapter that it had loaded")
        self._adapter = name

    def _check(self, plan: BatchPlan) -> None:
        if plan.adapter is not None and plan.adapter not in self._adapters:
            raise ValueError(f"the adapter {plan.adapter!r} is not loaded")
        rows = plan.tokens
        if not 0 < rows <= self._limits.batch_tokens:
            raise ValueError(f"a batch of {rows} tokens; 1 to {self._limits.batch_tokens} are possible")
        seen: set[int] = set()
        outputs = 0
        for run in plan.runs:
            self._check_run(run)
            outputs += run.wants_logits
            if run.sequence_id in seen:
                raise ValueError(f"sequence {run.sequence_id} has two runs in one batch")
            seen.add(run.sequence_id)
        if outputs > self._context.output_rows:
            raise ValueError(f"{outputs} rows of logits; {self._context.output_rows} are possible")

    def _check_through(self, through: int) -> None:
        if not self._limits.can_save_cells:
            raise ValueError("this memory's cells cannot be saved")
        if not 0 <= through < self._limits.sequence_ids or self.evaluated_tokens(through):
            raise ValueError(f"sequence {through} cannot be copied through")

    def _check_run(self, run: PlannedRun) -> None:
        """Ids, tokens and positions: llama.cpp accepts a new sequence that starts late, and some overlaps."""
        if not 0 <= run.sequence_id < self._limits.sequence_ids:
            raise ValueError(f"rows need a sequence id below {self._limits.sequence_ids}, not {run.sequence_id}")
        if not run.tokens:
            raise ValueError(f"the run of sequence {run.sequence_id} is empty")
        if not 0 <= run.wants_logits <= len(run.tokens):
            raise ValueError(f"the run of sequence {run.sequence_id} wants {run.wants_logits} rows of logits")
        if min(run.tokens) < 0 or max(run.tokens) >= self._vocabulary_size:
            raise ValueError(f"the run of sequence {run.sequence_id} has tokens outside the vocabulary")
        if (stop := run.first_position + len(run.tokens)) > self._limits.request_limit_tokens:
            raise ValueError(f"sequence {run.sequence_id} would have {stop} tokens, more than one request may have")
        held = self.evaluated_tokens(run.sequence_id)
        if run.first_position != held:
            raise ValueError(
                f"sequence {run.sequence_id} holds {held} tokens; its run cannot start at {run.first_position}"
            )

    def _read_rows(self, outputs: int) -> Logits:
        """The logits of the decode that just succeeded, in batch order, as one view of shape (outputs, vocabulary)."""
        if outputs == 0:
            return _NO_ROWS
        address = ctypes.cast(llama_cpp.llama_get_logits(self._context.pointer), ctypes.c_void_p).value
        if not address:
            raise RuntimeError("llama.cpp decoded the batch but has no logits")
        values = (ctypes.c_float * (outputs * self._vocabulary_size)).from_address(address)
        return np.ctypeslib.as_array(values).reshape(outputs, self._vocabulary_size)


def _outcome(code: int) -> DecodeOutcome:
    """What llama_decode's return code means (llama.h)."""
    match code:
        case 0:
            return DecodeOutcome.DECODED
        case 1:
            return DecodeOutcome.NO_KV_SLOT
        case 2:
            return DecodeOutcome.ABORTED
        case -1:
            return DecodeOutcome.INVALID_BATCH
        case _:
            return DecodeOutcome.FATAL


def _check_sequence(sequence_id: int) -> None:
    """llama.cpp aborts on ids outside its compiled-in range."""
    if not 0 <= sequence_id <= HIGHEST_SEQUENCE_ID:
        raise ValueError(f"sequence ids are 0 to {HIGHEST_SEQUENCE_ID}, not {sequence_id}")
