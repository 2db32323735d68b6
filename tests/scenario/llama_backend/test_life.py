"""Warming up, closing, and the demo model with the default settings."""

import numpy as np
import pytest

from agent.core.backend import DecodeOutcome
from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama.context_parameters import ContextParameters
from agent.llama.model import LlamaModel
from agent.llama.threads import usable_cores
from tests.support.tiny_backend import PROMPT, decode, logits_of, no_sampler, run
from tests.support.tiny_model import demo_model_path


def test_warming_up_leaves_nothing_behind(backend: LlamaBackend) -> None:
    backend.warm_up()

    assert [backend.evaluated_tokens(sequence_id) for sequence_id in range(8)] == [0] * 8
    with pytest.raises(ValueError):
        backend.logits(0)


def test_a_warm_up_that_fails_is_logged_and_harms_nothing(
    backend: LlamaBackend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.request_abort()
    backend.warm_up()
    backend.clear_abort()

    assert "warm-up decode ended as aborted" in caplog.text
    assert decode(backend, run(0, PROMPT)) is DecodeOutcome.DECODED


def test_closing_twice_is_fine_and_use_afterwards_is_an_error_of_ours(backend: LlamaBackend) -> None:
    backend.close()
    backend.close()

    for use in (
        lambda: decode(backend, run(0, PROMPT)),
        lambda: backend.evaluated_tokens(0),
        lambda: backend.remove_from(0, 0),
        lambda: backend.copy_prefix(0, 1, 1),
        backend.clear,
        backend.warm_up,
    ):
        with pytest.raises(RuntimeError, match="closed"):
            use()
    backend.request_abort()  # from another thread this may come late


def test_at_least_one_core_is_usable() -> None:
    assert usable_cores() >= 1


@pytest.mark.model
def test_the_demo_model_continues_a_sentence_with_the_default_cache_type() -> None:
    model = LlamaModel.load(str(demo_model_path()))
    parameters = ContextParameters(
        slots=2, context_size=512, k_cache_dtype="Q8_0", v_cache_dtype="Q8_0", threads=usable_cores()
    )
    backend = LlamaBackend(LlamaContext(model, parameters), no_sampler)
    try:
        logits = logits_of(backend, 0, [504, 3575, 282, 4649, 314])  # "The capital of France is"
        assert np.isfinite(logits).all()
    finally:
        backend.close()
        model.close()
