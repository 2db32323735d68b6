"""Cells copied to host memory and back: what llama.cpp's sequence states do, which no document says."""

from dataclasses import replace

import llama_cpp
import numpy as np
import pytest

from agent.core.backend import DecodeOutcome
from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama.context_parameters import ContextParameters
from agent.llama.model import LlamaModel
from tests.support.tiny_backend import EXACT, PROMPT, NewBackend, decode, logits_of, no_sampler, run

THROUGH = 7  # the last of the eight ids that rows may use


def test_pieces_come_back_into_another_sequence_with_the_logits_of_a_cold_prompt(backend: LlamaBackend) -> None:
    cold = logits_of(backend, 0, PROMPT)
    pieces = [backend.save_cells(0, start, start + 33, THROUGH) for start in (0, 33, 66)]
    backend.remove_from(0, 0)
    assert decode(backend, run(1, [300] * 50)) is DecodeOutcome.DECODED  # so that other cells are free now

    for piece in pieces:
        assert piece is not None
        assert backend.restore_cells(piece, 2, piece.stop, THROUGH)
    assert backend.evaluated_tokens(2) == 99
    assert backend.evaluated_tokens(THROUGH) == 0
    assert np.abs(logits_of(backend, 2, PROMPT[99:], 99) - cold).max() < EXACT


def test_a_piece_goes_on_behind_shared_cells_and_may_be_used_in_part(backend: LlamaBackend) -> None:
    cold = logits_of(backend, 0, PROMPT[:80])
    backend.remove_from(0, 79)
    piece = backend.save_cells(0, 0, 79, THROUGH)
    assert piece is not None
    backend.copy_prefix(0, 1, 40)
    assert backend.restore_cells(piece, 1, 60, THROUGH)
    assert backend.evaluated_tokens(1) == 60
    assert np.abs(logits_of(backend, 1, PROMPT[60:80], 60) - cold).max() < EXACT
    # 79 cells and 40 of their own: 137 of 256 are free.
    assert decode(backend, run(2, [300] * 137)) is DecodeOutcome.DECODED
    assert decode(backend, run(3, [300])) is DecodeOutcome.NO_KV_SLOT


@pytest.mark.parametrize("parked", [8, 200])
def test_a_prefix_that_is_parked_above_the_ids_of_rows_can_be_saved(backend: LlamaBackend, parked: int) -> None:
    cold = logits_of(backend, 0, PROMPT)
    backend.copy_prefix(0, parked, 99)
    backend.remove_from(0, 0)
    piece = backend.save_cells(parked, 0, 99, THROUGH)
    backend.remove_from(parked, 0)
    assert piece is not None
    assert backend.restore_cells(piece, 1, 99, THROUGH)
    assert np.abs(logits_of(backend, 1, PROMPT[99:], 99) - cold).max() < EXACT


@pytest.mark.parametrize(
    "types",
    [
        {"k_cache_dtype": "F16", "v_cache_dtype": "F16", "flash_attention": True},
        {"k_cache_dtype": "Q8_0", "v_cache_dtype": "Q8_0", "flash_attention": True},
        {"k_cache_dtype": "F16", "v_cache_dtype": "F16", "flash_attention": False},
    ],
)
def test_a_copy_of_a_copy_is_the_same_byte_by_byte(new_backend: NewBackend, types: dict[str, object]) -> None:
    backend = new_backend(**types)
    logits_of(backend, 0, PROMPT)
    piece = backend.save_cells(0, 10, 90, THROUGH)
    backend.copy_prefix(0, 1, 10)
    assert piece is not None
    assert backend.restore_cells(piece, 1, 90, THROUGH)
    again = backend.save_cells(1, 10, 90, THROUGH)
    assert again is not None
    assert np.array_equal(piece.content, again.content)
    assert piece.size_bytes == len(piece.content)


def test_without_room_nothing_changes(backend: LlamaBackend) -> None:
    cold = logits_of(backend, 0, PROMPT)
    piece = backend.save_cells(0, 0, 99, THROUGH)
    assert piece is not None
    assert decode(backend, run(1, [300] * 58)) is DecodeOutcome.DECODED  # 98 cells are left
    assert not backend.restore_cells(piece, 2, 99, THROUGH)
    assert [backend.evaluated_tokens(one) for one in (0, 1, 2, THROUGH)] == [100, 58, 0, 0]
    backend.remove_from(0, 99)
    assert backend.restore_cells(piece, 2, 99, THROUGH)  # into the last cells there are
    backend.remove_from(1, 0)
    for sequence_id in (0, 2):
        assert np.abs(logits_of(backend, sequence_id, PROMPT[99:], 99) - cold).max() < EXACT


def test_a_copy_that_is_cut_off_is_refused(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)
    piece = backend.save_cells(0, 0, 99, THROUGH)
    assert piece is not None
    half = replace(piece, content=piece.content[: piece.size_bytes // 2].copy(), size_bytes=piece.size_bytes // 2)
    assert not backend.restore_cells(half, 1, 99, THROUGH)
    assert backend.evaluated_tokens(1) == backend.evaluated_tokens(THROUGH) == 0


def test_a_hole_in_what_is_held_is_noticed(backend: LlamaBackend) -> None:
    """As a sliding window leaves them."""
    logits_of(backend, 0, PROMPT)
    backend._copies.measure(0, THROUGH)
    backend.remove_from(0, 50)
    backend.copy_prefix(0, 1, 20)
    llama_cpp.llama_memory_seq_rm(backend._context.memory, 0, 20, 25)
    assert backend.save_cells(0, 0, 50, THROUGH) is None
    assert backend.save_cells(0, 25, 50, THROUGH) is not None


def test_impossible_copies_are_value_errors(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)
    piece = backend.save_cells(0, 10, 90, THROUGH)
    assert piece is not None
    backend.copy_prefix(0, 1, 5)
    for misuse in (
        lambda: backend.save_cells(0, 10, 101, THROUGH),
        lambda: backend.save_cells(0, 10, 10, THROUGH),
        lambda: backend.save_cells(0, -1, 10, THROUGH),
        lambda: backend.save_cells(0, 0, 10, 8),
        lambda: backend.save_cells(0, 0, 10, 0),
        lambda: backend.save_cells(256, 0, 10, THROUGH),
        lambda: backend.restore_cells(piece, 1, 90, THROUGH),  # five positions are missing
        lambda: backend.restore_cells(piece, 0, 90, THROUGH),  # nothing is
        lambda: backend.restore_cells(piece, 2, 90, 8),
        lambda: backend.restore_cells(piece, 300, 90, THROUGH),
    ):
        with pytest.raises(ValueError):
            misuse()


def test_a_memory_on_a_gpu_is_not_copied(model: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "uses_gpu", True)
    for offload_cache in (True, False):
        context = LlamaContext(model, ContextParameters(slots=1, context_size=256, offload_cache=offload_cache))
        backend = LlamaBackend(context, no_sampler)
        backend.warm_up()
        assert backend.limits.can_save_cells is not offload_cache
        if offload_cache:
            logits_of(backend, 0, PROMPT)
            with pytest.raises(ValueError, match="cannot be saved"):
                backend.save_cells(0, 0, 10, 2)
        backend.close()
