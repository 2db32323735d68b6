"""Our sampler keeps exactly the tokens that llama.cpp's own chain keeps, in its order, with its probabilities.

The chain works on an array of logits and needs no model. Rows hold distinct values: llama.cpp leaves the order of
equal logits to an unstable sort, ours has a rule.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import llama_cpp.llama_cpp as llama
import numpy as np
import numpy.typing as npt
import pytest

from agent.sampling.penalties import PenaltyWindow
from agent.sampling.ranking import Logits, TokenIds, rank_top
from agent.sampling.token_sampler import TokenSampler
from agent.sampling.truncation import masses
from shared.generation import SamplingParameters

_TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_DEFAULTS = SamplingParameters()
_NEUTRAL = SamplingParameters(
    temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, penalty_last_n=0, penalty_presence=0.0, penalty_repeat=1.0
)

# llama.cpp adds up a row's mass in float32, one entry at a time. On a long row a part of the many small ones is lost:
# at 262,144 entries a nucleus of 0.9 ends at 0.8995 (ours does not). Share of the mass that this may move per entry.
_LOST_PER_ENTRY = 4e-9

CASES = [
    pytest.param(_DEFAULTS, id="defaults"),
    pytest.param(replace(_DEFAULTS, penalty_last_n=64, penalty_frequency=0.3), id="short window with frequency"),
    pytest.param(replace(_DEFAULTS, penalty_repeat=0.7, penalty_presence=-0.5), id="penalties that favour"),
    pytest.param(replace(_DEFAULTS, penalty_last_n=0), id="window off"),
    pytest.param(replace(_NEUTRAL, top_k=1), id="top_k 1"),
    pytest.param(replace(_NEUTRAL, top_k=40), id="top_k"),
    pytest.param(replace(_NEUTRAL, top_k=700), id="top_k above llama.cpp's bucket limit"),
    pytest.param(replace(_NEUTRAL, top_k=10**6), id="top_k above the vocabulary"),
    pytest.param(replace(_NEUTRAL, top_p=0.3), id="top_p"),
    pytest.param(replace(_NEUTRAL, top_p=0.9, temperature=1.7), id="wide top_p and temperature"),
    pytest.param(replace(_NEUTRAL, top_p=0.0), id="top_p 0"),
    pytest.param(replace(_NEUTRAL, top_p=0.9, min_p=0.02), id="top_p and min_p"),
    pytest.param(replace(_NEUTRAL, top_k=300, top_p=0.9, temperature=0.4), id="top_p of top_k"),
    pytest.param(replace(_NEUTRAL, top_k=300, min_p=0.01), id="min_p of top_k"),
    pytest.param(replace(_NEUTRAL, min_p=0.05), id="min_p"),
    pytest.param(replace(_NEUTRAL, min_p=1.5), id="min_p above 1"),
    pytest.param(replace(_NEUTRAL, temperature=2.5), id="temperature alone"),
]


@contextmanager
def llama_chain(parameters: SamplingParameters, vocabulary_size: int) -> Iterator[Any]:
    """The chain as Paddler builds it. llama.cpp takes a window of -1 for off, so the whole context is its length."""
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    window = 100_000 if parameters.penalty_last_n == -1 else parameters.penalty_last_n
    for sampler in (
        llama.llama_sampler_init_penalties(
            vocabulary_size,
            window,
            parameters.penalty_repeat,
            parameters.penalty_frequency,
            parameters.penalty_presence,
        ),
        llama.llama_sampler_init_top_k(parameters.top_k),
        llama.llama_sampler_init_top_p(parameters.top_p, 0),
        llama.llama_sampler_init_min_p(parameters.min_p, 0),
        llama.llama_sampler_init_temp(parameters.temperature),
        llama.llama_sampler_init_dist(1),
    ):
        llama.llama_sampler_chain_add(chain, sampler)
    try:
        yield chain
    finally:
        llama.llama_sampler_free(chain)


def llama_candidates(
    parameters: SamplingParameters, tokens: list[int], row: Logits
) -> tuple[TokenIds, npt.NDArray[np.float32], bool]:
    """Ids and probabilities that the chain leaves: in its order, or by id where it did not sort."""
    data = np.zeros(row.size, dtype=_TOKEN_DATA)
    data["id"] = np.arange(row.size)
    data["logit"] = row
    array = llama.llama_token_data_array(
        data=ctypes.cast(data.ctypes.data, llama.llama_token_data_p), size=row.size, selected=-1, sorted=False
    )
    with llama_chain(parameters, row.size) as chain:
        for token in tokens:
            llama.llama_sampler_accept(chain, token)
        llama.llama_sampler_apply(chain, ctypes.byref(array))
    # The samplers may move the pointer to memory of their own; here they do not.
    assert ctypes.cast(array.data, ctypes.c_void_p).value == data.ctypes.data
    left = data[: array.size]
    if not array.sorted:
        left = left[np.argsort(left["id"])]
    return left["id"].astype(np.int64), left["p"].copy(), bool(array.sorted)


def nucleus_surplus(row: Logits, best: float, ids: TokenIds, expected_ids: TokenIds) -> float:
    """Share of the row's mass that one list of candidates holds beyond the other's length."""
    longer = max(ids, expected_ids, key=len)
    surplus = longer[min(ids.size, expected_ids.size) :]
    return float(masses(row[surplus], best).sum() / masses(row, best).sum())


def distinct_row(seed: int, size: int) -> Logits:
    """A peaked row: most tokens improbable, a few likely, as models make them."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=2.5, size=2 * size)
    logits[: size // 1_000 + 3] += 9
    distinct = np.unique(logits[: size + size // 4].astype(np.float32))
    generator.shuffle(distinct)
    return distinct[:size]


@pytest.mark.parametrize("vocabulary_size", [1_000, 49_152, 262_144])
@pytest.mark.parametrize("parameters", CASES)
def test_the_candidates_and_their_probabilities_are_llama_cpps(
    parameters: SamplingParameters, vocabulary_size: int
) -> None:
    is_whole_row_nucleus = parameters.top_k == 0 and parameters.top_p < 1
    for seed in range(3):
        row = distinct_row(seed, vocabulary_size)
        likely = rank_top(row, 50)
        tokens = np.random.default_rng(seed).choice(np.concatenate((likely, np.arange(500))), 300).tolist()
        expected_ids, expected_p, was_sorted = llama_candidates(parameters, tokens, row)

        window = PenaltyWindow(parameters, vocabulary_size)
        window.observe(tokens)
        window.apply(row)
        best = float(row.max())
        ids = TokenSampler(parameters, 0, vocabulary_size).candidates(row, best)
        if ids is None:
            ids = rank_top(row, vocabulary_size)
        if not was_sorted:
            ids = np.sort(ids)
        weights = masses(row[ids], best, parameters.temperature)
        if is_whole_row_nucleus and nucleus_surplus(row, best, ids, expected_ids) < _LOST_PER_ENTRY * row.size:
            ids, expected_ids = ids[: expected_ids.size], expected_ids[: ids.size]
            weights, expected_p = weights[: ids.size], expected_p[: ids.size]
        assert ids.tolist() == expected_ids.tolist()
        np.testing.assert_allclose(weights / weights.sum(), expected_p / expected_p.sum(), rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("vocabulary_size", [1_000, 262_144])
def test_greedy_chooses_what_llama_cpps_chain_chooses(vocabulary_size: int) -> None:
    parameters = replace(_DEFAULTS, temperature=0.0)
    for seed in range(5):
        row = distinct_row(seed, vocabulary_size)
        tokens = rank_top(row, 4)[:seed].tolist() * 3
        ids, p, _ = llama_candidates(parameters, tokens, row)
        sampler = TokenSampler(parameters, 0, vocabulary_size)
        sampler.observe(tokens)
        assert sampler.sample(row, 0) == ids[p.argmax()]
