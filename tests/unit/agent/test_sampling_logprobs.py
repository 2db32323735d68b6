"""Log-softmax of raw logits, against float64."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.backend import LogprobsWanted
from agent.sampling.logprobs import LOWEST_LOGPROB, RowLogprobs


@given(
    seed=st.integers(0, 2**32),
    size=st.integers(1, 3000),
    spread=st.sampled_from([0.0, 1.0, 10.0, 300.0]),
    count=st.integers(0, 20),
)
def test_every_logprob_is_that_of_a_softmax_in_float64(seed: int, size: int, spread: float, count: int) -> None:
    row = (np.random.default_rng(seed).normal(size=size) * spread).astype(np.float32)
    exact = row.astype(np.float64) - row.max()
    exact -= math.log(math.fsum(np.exp(exact)))
    asked = (0, size - 1, size // 2)
    reading = RowLogprobs(row, LogprobsWanted(count, asked))
    row[:] = np.nan  # the sampler may do what it likes with the row
    assert [reading.of(token) for token in range(min(size, 50))] == pytest.approx(exact[:50], abs=2e-5, rel=1e-6)
    assert reading.asked == [(token, reading.of(token)) for token in asked]
    ranked = sorted(range(size), key=lambda token: (-exact[token], token))[:count]
    assert [token for token, _ in reading.top] == ranked
    assert [logprob for _, logprob in reading.top] == [reading.of(token) for token in ranked]


def test_what_has_no_probability_has_the_lowest_number() -> None:
    reading = RowLogprobs(np.array([0.0, -np.inf, -2e4], dtype=np.float32), LogprobsWanted(3))
    assert reading.top == [(0, 0.0), (2, LOWEST_LOGPROB), (1, LOWEST_LOGPROB)]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_row_gives_no_broken_number(bad: float) -> None:
    reading = RowLogprobs(np.array([0.0, bad, 1.0], dtype=np.float32), LogprobsWanted(2, (1,)))
    assert {logprob for _, logprob in (*reading.top, *reading.asked)} == {LOWEST_LOGPROB}


def test_a_row_without_a_number_gives_no_broken_number() -> None:
    assert RowLogprobs(np.full(3, -np.inf, dtype=np.float32), LogprobsWanted(1)).top == [(0, LOWEST_LOGPROB)]
