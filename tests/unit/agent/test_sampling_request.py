"""A request's own sampling, against a plain sampler in float64: bias, heated truncation, forbidden ids."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent.core.request_sampling import RequestSampling, request_sampling
from agent.sampling.token_sampler import TokenSampler
from agent.sampling.uniform import uniform_draw
from shared.generation import SamplingParameters
from shared.generation_options import SamplingOptions

UNDECIDED = 1e-6
OFF = SamplingParameters(
    temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, penalty_last_n=0, penalty_presence=0.0, penalty_repeat=1.0
)


def compat(**options: object) -> SamplingParameters:
    given_options = SamplingOptions.model_validate(
        {"follows_sglang_order": True, "penalises_answer_only": True, **options}
    )
    return request_sampling(OFF, given_options)


class Plain:
    """SGLang's order in float64. `undecided` once a decision came closer than UNDECIDED to its threshold."""

    def __init__(self, parameters: RequestSampling, seed: int) -> None:
        self.parameters = parameters
        self.seed = seed
        self.undecided = False

    def sample(self, row: list[float], answer: list[int], index: int) -> int:
        p = self.parameters
        logits = list(row)
        for token in set(answer):
            logits[token] = logits[token] / p.penalty_repeat if logits[token] > 0 else logits[token] * p.penalty_repeat
            logits[token] -= answer.count(token) * p.penalty_frequency + p.penalty_presence
        for token, bias in p.logit_bias:
            logits[token] += bias
        ids = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
        gaps = [logits[one] - logits[other] for one, other in pairwise(ids)]
        self.doubt(*(gap for gap in gaps if gap))
        if p.temperature == 0:
            return ids[0]
        scaled = [logits[token] / p.temperature for token in ids]
        if p.top_k > 0:
            scaled = scaled[: p.top_k]
        masses = [math.exp(one - scaled[0]) for one in scaled]
        length, held, whole = 0, 0.0, sum(masses)
        while p.top_p < 1 and length < len(masses) and (length == 0 or held < p.top_p * whole):
            held += masses[length]
            length += 1
            self.doubt(held / whole - p.top_p)
        masses = masses[: length or len(masses)]
        self.doubt(*(mass - p.min_p for mass in masses if p.min_p))
        masses = [mass for mass in masses if mass >= p.min_p]
        target, held = uniform_draw(self.seed, index) * sum(masses), 0.0
        for token, mass in zip(ids, masses, strict=False):
            held += mass
            self.doubt((held - target) / sum(masses))
            if held > target:
                return token
        self.undecided = True
        return ids[0]

    def doubt(self, *distances: float) -> None:
        self.undecided |= any(abs(distance) < UNDECIDED for distance in distances)


options = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 0.3, 1.0]) | st.floats(0.05, 4),
        "top_k": st.sampled_from([-1, 1]) | st.integers(2, 40),
        "top_p": st.just(1.0) | st.floats(0.01, 0.99),
        "min_p": st.just(0.0) | st.floats(0.001, 0.9),
        "frequency_penalty": st.just(0.0) | st.floats(-2, 2),
        "presence_penalty": st.just(0.0) | st.floats(-2, 2),
        "repetition_penalty": st.just(1.0) | st.floats(0.2, 2),
        "logit_bias": st.dictionaries(st.integers(0, 39), st.floats(-120, 120), max_size=4),
    }
)


@given(
    asked=options,
    row_seed=st.integers(0, 2**32),
    size=st.integers(40, 400),
    answer=st.lists(st.integers(0, 39), max_size=12),
    seed=st.integers(0, 2**64 - 1),
)
def test_each_draw_is_that_of_a_plain_sampler(
    asked: dict[str, object], row_seed: int, size: int, answer: list[int], seed: int
) -> None:
    parameters = compat(**asked)
    assert isinstance(parameters, RequestSampling)
    row = (np.random.default_rng(row_seed).normal(size=size) * 3).astype(np.float32)
    plain = Plain(parameters, seed)
    expected = plain.sample([float(one) for one in row], answer, len(answer))
    assume(not plain.undecided)
    sampler = TokenSampler(parameters, seed, size)
    sampler.observe(answer)
    assert sampler.sample(row.copy(), len(answer)) == expected


def test_truncation_looks_at_the_heated_probabilities_only_where_asked() -> None:
    row = np.log(np.array([0.5, 0.3, 0.2], dtype=np.float32))
    before = TokenSampler(request_sampling(OFF, SamplingOptions(temperature=10.0, top_p=0.5)), 1, 3)
    after = TokenSampler(compat(temperature=10.0, top_p=0.5), 1, 3)
    assert {before.sample(row.copy(), index) for index in range(200)} == {0}
    assert {after.sample(row.copy(), index) for index in range(200)} == {0, 1}


def test_what_is_not_asked_for_is_as_the_state_says() -> None:
    state = SamplingParameters(temperature=0.5, top_k=7, penalty_last_n=64)
    assert request_sampling(state, None) is state
    mixed = request_sampling(state, SamplingOptions(top_p=0.9))
    assert (mixed.temperature, mixed.top_k, mixed.top_p, mixed.penalty_last_n) == (0.5, 7, 0.9, 64)
    assert request_sampling(state, SamplingOptions(penalises_answer_only=True)).penalty_last_n == -1


def test_a_bias_makes_a_token_certain_or_impossible() -> None:
    row = np.zeros(50, dtype=np.float32)
    assert {TokenSampler(compat(logit_bias={7: 100.0}), seed, 50).sample(row.copy(), 0) for seed in range(50)} == {7}
    hated = TokenSampler(compat(logit_bias={7: -100.0}), 1, 50)
    assert 7 not in {hated.sample(row.copy(), index) for index in range(2000)}


@pytest.mark.parametrize("bias", [1e300, -1e300, math.inf, -math.inf])
def test_an_absurd_bias_leaves_a_usable_row_and_what_was_masked_stays_masked(bias: float) -> None:
    sampler = TokenSampler(RequestSampling(logit_bias=((1, bias), (2, 1e300))), 1, 3)
    row = np.array([0.0, 1.0, -np.inf], dtype=np.float32)
    assert sampler.sample(row, 0) in (0, 1)
    assert np.isneginf(row[2])
    assert not np.isposinf(row).any()


def test_forbidden_tokens_cannot_be_drawn_unless_nothing_else_can() -> None:
    sampler = TokenSampler(OFF, 1, 4)
    row = np.array([9.0, 1.0, 0.0, -np.inf], dtype=np.float32)
    sampler.forbid(row, frozenset({0, 2}))
    assert sampler.sample(row.copy(), 0) == 1
    sampler.forbid(row, (1, 3))
    assert sampler.sample(row, 0) == 1
