"""Each outcome of a decode, and the logits that come of it."""

import threading

import numpy as np
import pytest

from agent.core.backend import DecodeOutcome
from agent.llama.backend import LlamaBackend
from tests.support.tiny_backend import EXACT, PROMPT, decode, logits_of, run


def test_a_decode_gives_finite_logits_of_the_whole_vocabulary(backend: LlamaBackend) -> None:
    logits = logits_of(backend, 0, PROMPT)

    assert logits.shape == (512,)
    assert logits.dtype == np.float32
    assert np.isfinite(logits).all()
    assert backend.evaluated_tokens(0) == len(PROMPT)


def test_no_slot_leaves_every_position_and_shows_no_old_logits(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)
    logits_of(backend, 1, PROMPT)

    outcome = decode(backend, run(0, [300] * 30, 100), run(1, [300] * 30, 100))

    assert outcome is DecodeOutcome.NO_KV_SLOT
    assert [backend.evaluated_tokens(sequence_id) for sequence_id in (0, 1)] == [100, 100]
    with pytest.raises(ValueError, match="0 rows"):
        backend.logits(0)


def test_a_batch_that_fills_the_pool_to_the_last_cell_is_decoded(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)

    assert decode(backend, run(1, [300] * 156)) is DecodeOutcome.DECODED
    assert decode(backend, run(2, [300])) is DecodeOutcome.NO_KV_SLOT


def test_an_abort_stops_the_decode_and_the_next_one_after_clearing_is_exact(backend: LlamaBackend) -> None:
    expected = logits_of(backend, 3, PROMPT)
    before = logits_of(backend, 1, PROMPT[:50])
    backend.request_abort()

    outcome = decode(backend, run(0, PROMPT))

    assert outcome is DecodeOutcome.ABORTED
    assert backend.evaluated_tokens(0) == 0
    assert backend.evaluated_tokens(1) == 50
    with pytest.raises(ValueError):
        backend.logits(0)
    backend.remove_from(3, 0)
    backend.clear_abort()
    assert np.abs(logits_of(backend, 0, PROMPT) - expected).max() < EXACT
    backend.remove_from(1, 49)
    assert np.abs(logits_of(backend, 1, PROMPT[49:50], 49) - before).max() < EXACT


def test_an_abort_reaches_a_decode_from_another_thread(backend: LlamaBackend) -> None:
    aborter = threading.Thread(target=backend.request_abort)
    outcomes = []
    aborter.start()
    while DecodeOutcome.ABORTED not in outcomes:  # whenever the flag is seen, it stays set
        backend.remove_from(0, 0)
        outcomes.append(decode(backend, run(0, PROMPT)))
    aborter.join()

    assert set(outcomes[:-1]) <= {DecodeOutcome.DECODED}


def test_rows_come_in_the_order_of_the_runs_that_want_them(backend: LlamaBackend) -> None:
    alone = [logits_of(backend, 7, PROMPT[: 10 * n]) for n in (1, 2, 3) if backend.remove_from(7, 0)]
    backend.clear()

    outcome = decode(
        backend,
        run(2, PROMPT[:10]),
        run(0, PROMPT[:40], wants_logits=False),
        run(1, PROMPT[:20]),
        run(3, PROMPT[:30]),
    )

    assert outcome is DecodeOutcome.DECODED
    for row, expected in enumerate(alone):
        assert np.abs(backend.logits(row) - expected).max() < EXACT
    with pytest.raises(ValueError):
        backend.logits(3)


def test_logits_are_a_view_that_may_be_written_into(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)

    backend.logits(0)[7] = -np.inf

    assert backend.logits(0)[7] == -np.inf


def test_a_prompt_in_chunks_gives_the_logits_of_a_prompt_in_one(backend: LlamaBackend) -> None:
    whole = logits_of(backend, 0, PROMPT)
    for start in range(0, 100, 32):
        chunk = PROMPT[start : start + 32]
        assert decode(backend, run(1, chunk, start)) is DecodeOutcome.DECODED

    assert np.abs(backend.logits(0) - whole).max() < EXACT


def test_a_fault_by_one_token_moves_the_logits_far_beyond_rounding(backend: LlamaBackend) -> None:
    # Guards the tests above: the tiny model must be able to show a wrong cell or position.
    whole = logits_of(backend, 0, PROMPT)
    other = logits_of(backend, 1, (PROMPT[1], PROMPT[0], *PROMPT[2:]))

    assert np.abs(whole - other).max() > 100 * EXACT
