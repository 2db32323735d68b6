"""Shared prefixes, parked sequences, cut tails."""

import numpy as np

from agent.core.backend import DecodeOutcome
from agent.llama.backend import LlamaBackend
from tests.support.tiny_backend import EXACT, PROMPT, decode, logits_of, run


def test_a_shared_prefix_gives_the_logits_of_a_cold_prompt_and_costs_no_cells(backend: LlamaBackend) -> None:
    cold = logits_of(backend, 0, PROMPT)
    for target in (1, 2, 3):
        backend.copy_prefix(0, target, 99)
        assert backend.evaluated_tokens(target) == 99
        assert np.abs(logits_of(backend, target, PROMPT[99:], 99) - cold).max() < EXACT

    # 100 cells and three of their own: 153 of 256 are free, which would be -144 had the prefix been copied.
    assert decode(backend, run(4, [300] * 153)) is DecodeOutcome.DECODED
    assert decode(backend, run(5, [300])) is DecodeOutcome.NO_KV_SLOT


def test_prefixes_can_be_parked_on_every_id_up_to_255_and_come_back(backend: LlamaBackend) -> None:
    # Undocumented: llama.cpp checks rows against n_seq_max (8 here), copies against its compiled-in 256.
    cold = logits_of(backend, 0, PROMPT)
    for parked in range(8, 256):
        backend.copy_prefix(0, parked, 100)
        assert backend.evaluated_tokens(parked) == 100
    backend.remove_from(0, 0)
    assert decode(backend, run(1, [300] * 200)) is DecodeOutcome.NO_KV_SLOT  # the parked cells are still taken

    for parked in (8, 131, 255):
        backend.copy_prefix(parked, 2, 99)
        assert np.abs(logits_of(backend, 2, PROMPT[99:], 99) - cold).max() < EXACT
        backend.remove_from(2, 0)
    for parked in range(8, 256):
        backend.remove_from(parked, 0)
    assert decode(backend, run(1, [300] * 200)) is DecodeOutcome.DECODED


def test_removing_a_tail_frees_its_cells_and_the_sequence_goes_on(backend: LlamaBackend) -> None:
    whole = logits_of(backend, 0, PROMPT)

    assert backend.remove_from(0, 40)

    assert backend.evaluated_tokens(0) == 40
    assert np.abs(logits_of(backend, 0, PROMPT[40:], 40) - whole).max() < EXACT


def test_clearing_forgets_everything(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)
    backend.copy_prefix(0, 200, 100)

    backend.clear()

    assert backend.evaluated_tokens(0) == backend.evaluated_tokens(200) == 0
