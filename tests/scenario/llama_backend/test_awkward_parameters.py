"""Contexts, batches, slots and cache types at their limits."""

from typing import Any

import numpy as np
import pytest

from agent.core.backend import DecodeOutcome
from agent.llama.context import LlamaContext
from agent.llama.context_parameters import ContextParameters
from agent.llama.errors import ContextCannotBeCreated
from agent.llama.model import LlamaModel
from tests.support.tiny_backend import EXACT, PROMPT, NewBackend, decode, logits_of, run
from tests.support.tiny_model import TinyModel, tiny_model_path


def test_a_context_of_64_with_a_batch_of_2048_obeys_what_is_read_back(new_backend: NewBackend) -> None:
    backend = new_backend(context_size=64, n_batch=2048)

    assert backend.limits.context_cells == 256
    assert backend.limits.batch_tokens == 64
    assert backend.limits.request_limit_tokens == 64
    assert decode(backend, run(0, PROMPT[:64])) is DecodeOutcome.DECODED
    with pytest.raises(ValueError, match="1 to 64"):
        decode(backend, run(1, PROMPT[:65]))


def test_a_batch_of_one_serves_eight_sequences(new_backend: NewBackend) -> None:
    # llama.cpp aborts at creation when its most outputs (n_batch by default) are fewer than its sequences.
    wide, narrow = new_backend(slots=8), new_backend(slots=8, n_batch=1)
    prompts = [PROMPT[start : start + 5] for start in range(8)]
    expected = [logits_of(wide, sequence_id, prompt) for sequence_id, prompt in enumerate(prompts)]

    narrow.warm_up()
    for position in range(5):
        for sequence_id, prompt in enumerate(prompts):
            found = logits_of(narrow, sequence_id, prompt[position : position + 1], position)
            if position == 4:
                assert np.abs(found - expected[sequence_id]).max() < EXACT


def test_255_slots_can_start_and_all_generate(new_backend: NewBackend) -> None:
    backend = new_backend(slots=255, context_size=512)

    assert decode(backend, *(run(sequence_id, [300]) for sequence_id in range(255))) is DecodeOutcome.DECODED
    assert np.abs(backend.logits(254) - backend.logits(0)).max() < EXACT


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "IQ4_NL", "Q5_0", "Q5_1"])
def test_every_cache_type_gives_logits_near_those_of_f32(new_backend: NewBackend, dtype: str) -> None:
    exact = logits_of(new_backend(), 0, PROMPT)

    found = logits_of(new_backend(k_cache_dtype=dtype, v_cache_dtype=dtype, flash_attention=None), 0, PROMPT)

    assert np.isfinite(found).all()
    assert np.corrcoef(found, exact)[0, 1] > 0.9


def test_the_training_context_is_taken_for_a_context_size_of_zero(new_backend: NewBackend) -> None:
    limits = new_backend(context_size=0).limits

    assert limits.context_cells == limits.request_limit_tokens == 1024


def test_a_context_beyond_the_training_context_is_a_larger_pool_for_the_same_requests(
    new_backend: NewBackend,
) -> None:
    limits = new_backend(context_size=4096).limits

    assert limits.context_cells == 4096
    assert limits.request_limit_tokens == 1024


@pytest.mark.parametrize(
    "changes",
    [
        {"slots": 0},
        {"slots": 256},
        {"context_size": -1},
        {"n_batch": 0},
        {"threads": 0},
        {"k_cache_dtype": "Q9"},
        {"context_size": 2**31 - 1},
        {"v_cache_dtype": "Q8_0"},  # without flash attention
    ],
    ids=lambda changes: " ".join(f"{key}={value}" for key, value in changes.items()),
)
def test_parameters_that_cannot_work_are_refused_with_a_sentence(
    new_backend: NewBackend, changes: dict[str, Any]
) -> None:
    with pytest.raises(ContextCannotBeCreated, match=r"\w+ \w+ \w+"):
        new_backend(**changes)


def test_a_cache_type_that_does_not_divide_the_heads_is_refused_with_llama_cpps_reason(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    narrow_heads = tiny_model_path(tmp_path_factory.mktemp("models"), TinyModel(heads=4))
    model = LlamaModel.load(str(narrow_heads))
    try:
        with pytest.raises(ContextCannotBeCreated, match="does not divide"):
            LlamaContext(model, ContextParameters(slots=1, k_cache_dtype="Q8_0", v_cache_dtype="Q8_0"))
    finally:
        model.close()
