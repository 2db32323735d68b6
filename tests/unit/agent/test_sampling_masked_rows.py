"""Rows of which a constraint's mask left little: always one of what is left, whatever the parameters."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sampling.ranking import Logits
from agent.sampling.token_sampler import TokenSampler, few_allowed
from shared.generation import SamplingParameters

SIZE = 2_000
factors = st.sampled_from([0.0, 0.8, 1.0, 1.1, -1.0, 1e-40, 3e38, -3e38, math.inf, math.nan])
parameters = st.builds(
    SamplingParameters,
    temperature=st.sampled_from([0.0, 1e-45, 0.8, 1.0, 1e30, math.inf, math.nan]),
    top_k=st.sampled_from([-1, 0, 1, 80, SIZE - 1, 10**9]),
    top_p=st.sampled_from([0.0, 0.8, 1.0, 0.9999999, math.nan]),
    min_p=st.sampled_from([0.0, 0.05, 1.0, 2.0, 5e-324, math.nan]),
    penalty_last_n=st.sampled_from([-1, 0, 3]),
    penalty_frequency=factors,
    penalty_presence=factors,
    penalty_repeat=factors,
)


def masked_row(seed: int, allowed: list[int]) -> Logits:
    logits = np.random.default_rng(seed).normal(0, 5, SIZE).astype(np.float32)
    row = np.full(SIZE, -np.inf, dtype=np.float32)
    row[allowed] = logits[allowed]
    return row


allowed_sets = st.one_of(
    st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=5, unique=True),
    st.integers(1, SIZE).map(lambda count: list(range(SIZE - count, SIZE))),
)


@given(parameters, allowed_sets, st.integers(0, 2**32), st.lists(st.integers(0, SIZE - 1), max_size=20))
def test_a_masked_token_is_never_drawn_and_an_allowed_one_always(
    chosen: SamplingParameters, allowed: list[int], seed: int, observed: list[int]
) -> None:
    sampler = TokenSampler(chosen, seed, SIZE)
    sampler.observe(observed + allowed[:3])
    for index in range(3):
        assert sampler.sample(masked_row(seed, allowed), index) in allowed


@given(allowed_sets, st.integers(0, 2**32))
def test_greedy_takes_the_best_of_what_is_allowed(allowed: list[int], seed: int) -> None:
    row = masked_row(seed, allowed)
    sampler = TokenSampler(SamplingParameters(temperature=0.0, penalty_last_n=0), 1, SIZE)
    assert sampler.sample(row.copy(), 0) == max(allowed, key=lambda token: (row[token], -token))


def test_nothing_allowed_is_none() -> None:
    row = np.full(SIZE, -np.inf, dtype=np.float32)
    assert TokenSampler(SamplingParameters(), 1, SIZE).sample(row, 0) is None


@pytest.mark.parametrize("top_k", [0, 80])
def test_forgetting_the_masked_rest_of_a_row_changes_no_draw(top_k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = replace(SamplingParameters(), top_k=top_k, penalty_last_n=0)
    allowed = list(range(7, SIZE, 19))
    draws = [TokenSampler(chosen, seed, SIZE).sample(masked_row(seed, allowed), 0) for seed in range(40)]
    monkeypatch.setattr("agent.sampling.token_sampler.few_allowed", lambda row: None)
    assert draws == [TokenSampler(chosen, seed, SIZE).sample(masked_row(seed, allowed), 0) for seed in range(40)]
    assert len(set(draws)) > 5


def test_only_few_are_listed() -> None:
    found = few_allowed(masked_row(1, [3, 5]))
    assert found is not None
    assert found.tolist() == [3, 5]
    assert few_allowed(np.zeros(SIZE, dtype=np.float32)) is None
