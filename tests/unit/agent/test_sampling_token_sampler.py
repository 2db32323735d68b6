"""The whole chain, against a slow sampler written from its definition."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent.sampling.ranking import Logits
from agent.sampling.token_sampler import TokenSampler
from agent.sampling.uniform import uniform_draw
from shared.generation import SamplingParameters

ODD_FLOATS = [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-320, 1e-46, 1e300, -1e300]
PLAIN = SamplingParameters(
    temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, penalty_last_n=0, penalty_presence=0.0, penalty_repeat=1.0
)
UNDECIDED = 1e-6


class SlowSampler:
    """llama.cpp's chain in plain Python. `undecided` once a decision came closer than UNDECIDED to its threshold."""

    def __init__(self, parameters: SamplingParameters, seed: int) -> None:
        self.parameters = parameters
        self.seed = seed
        self.tokens: list[int] = []
        self.undecided = False

    def penalised(self, row: list[float]) -> list[np.float32]:
        """In float32 like llama.cpp, since which tokens tie afterwards depends on it."""
        p = self.parameters
        window = self.tokens if p.penalty_last_n == -1 else self.tokens[-p.penalty_last_n :]
        logits = [np.float32(logit) for logit in row]
        for token, count in Counter(window if p.penalty_last_n else []).items():
            repeat = np.float32(p.penalty_repeat)
            logit = logits[token]
            logit = logit * repeat if logit <= 0 else logit / repeat
            subtracted = np.float32(count) * np.float32(p.penalty_frequency) + np.float32(p.penalty_presence)
            logits[token] = logit - subtracted
        return logits

    def candidates(self, logits: list[np.float32]) -> list[int]:
        p = self.parameters
        ids = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
        if p.top_k > 0:
            ids = ids[: p.top_k]
        if p.top_p < 1:
            probabilities = softmax([float(logits[token]) for token in ids])
            mass, length = 0.0, 0
            while length < len(ids) and (length == 0 or mass < p.top_p):
                mass += probabilities[length]
                length += 1
                self.doubt(mass - p.top_p)
            ids = ids[:length]
        if p.min_p > 0:
            threshold = float(logits[ids[0]]) + math.log(p.min_p)
            self.doubt(*(float(logits[token]) - threshold for token in ids))
            ids = [token for token in ids if float(logits[token]) >= threshold]
        return ids

    def sample(self, row: list[float], answer_index: int) -> int:
        logits = self.penalised(row)
        ids = self.candidates(logits)
        if self.parameters.temperature <= 0:
            return ids[0]
        uniform = uniform_draw(self.seed, answer_index)
        mass = 0.0
        for token, probability in zip(
            ids, softmax([float(logits[token]) / self.parameters.temperature for token in ids]), strict=True
        ):
            mass += probability
            self.doubt(mass - uniform)
            if mass > uniform:
                return token
        self.undecided = True  # the probabilities sum to a little less than one
        return ids[-1]

    def doubt(self, *distances: float) -> None:
        self.undecided |= any(abs(distance) < UNDECIDED for distance in distances)


def softmax(logits: list[float]) -> list[float]:
    weights = [math.exp(logit - max(logits)) for logit in logits]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


probability_or_off = st.sampled_from([0.0, 1.0]) | st.floats(0.001, 0.999)
penalty_or_off = st.just(0.0) | st.floats(-2, 2)
parameter_sets = st.builds(
    SamplingParameters,
    temperature=st.sampled_from([0.0, -1.0]) | st.floats(0.05, 5),
    top_k=st.sampled_from([0, -1, 1, 10_000]) | st.integers(1, 60),
    top_p=probability_or_off,
    min_p=probability_or_off,
    penalty_last_n=st.integers(-1, 30),
    penalty_frequency=penalty_or_off,
    penalty_presence=penalty_or_off,
    penalty_repeat=st.just(1.0) | st.floats(0.5, 2),
)


def random_row(seed: int, size: int, spread: float) -> Logits:
    """Logits on a grid of eighths, so that some tie."""
    normal = np.random.default_rng(seed).normal(size=size) * spread
    return (np.round(normal * 8) / 8).astype(np.float32)


@given(
    parameters=parameter_sets,
    seed=st.integers(-(2**63), 2**64 - 1),
    row_seed=st.integers(0, 2**32),
    size=st.integers(1, 900),
    spread=st.sampled_from([0.0, 0.5, 3.0]),
    prompt=st.lists(st.integers(0, 2**16), max_size=40),
)
def test_the_fast_chain_draws_what_the_slow_one_draws(
    parameters: SamplingParameters, seed: int, row_seed: int, size: int, spread: float, prompt: list[int]
) -> None:
    fast, slow = TokenSampler(parameters, seed, size), SlowSampler(parameters, seed)
    prompt = [token % size for token in prompt]
    fast.observe(prompt)
    slow.tokens += prompt
    for answer_index in range(4):
        row = random_row(row_seed + answer_index, size, spread)
        expected = slow.sample(row.tolist(), answer_index)
        assume(not slow.undecided)
        assert fast.sample(row, answer_index) == expected
        fast.observe([expected])
        slow.tokens.append(expected)


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param(PLAIN, id="the whole row"),
        pytest.param(replace(PLAIN, temperature=0.5), id="temperature"),
        pytest.param(replace(PLAIN, top_k=5), id="top_k"),
        pytest.param(replace(PLAIN, top_p=0.9, temperature=2.0), id="top_p before temperature"),
        pytest.param(replace(PLAIN, min_p=0.1), id="min_p"),
        pytest.param(SamplingParameters(), id="defaults"),
    ],
)
def test_draws_follow_the_distribution(parameters: SamplingParameters) -> None:
    row = np.zeros(10, dtype=np.float32)
    row[:] = [1.0, 0.0, 2.0, 0.5, -0.5, 1.5, -6.0, 0.25, 0.75, -np.inf]
    slow = SlowSampler(parameters, 0)
    logits = slow.penalised(row.tolist())
    ids = slow.candidates(logits)
    probabilities = softmax([float(logits[token]) / parameters.temperature for token in ids])
    draws = 1_500
    for name, sampled in {
        "one seed": [TokenSampler(parameters, 9, 10).sample(row.copy(), index) for index in range(draws)],
        "one index": [TokenSampler(parameters, seed, 10).sample(row.copy(), 3) for seed in range(draws)],
    }.items():
        counts = Counter(sampled)
        assert set(counts) <= set(ids), name
        # Rare tokens have too few draws for the statistic.
        frequent = [(token, p * draws) for token, p in zip(ids, probabilities, strict=True) if p * draws > 5]
        chi_square = sum((counts[token] - expected) ** 2 / expected for token, expected in frequent)
        assert chi_square < 33.7, name  # 1 in 10,000 for 9 degrees of freedom, an upper bound on all cases


def test_a_draw_from_a_flat_row_is_the_number_itself() -> None:
    """The whole row may be drawn: here the token's id is the share of the row below it."""
    sampler = TokenSampler(PLAIN, 12, 30_000)
    for index in range(20):
        assert sampler.sample(np.zeros(30_000, dtype=np.float32), index) == int(uniform_draw(12, index) * 30_000)


def test_a_draw_depends_on_seed_and_index_alone() -> None:
    """Not on what was drawn before: a sequence that was set aside replays nothing."""
    row = random_row(1, 500, 1.0)
    answers = []
    for order in (range(20), reversed(range(20))):
        sampler = TokenSampler(PLAIN, 77, 500)
        answers.append({index: sampler.sample(row.copy(), index) for index in order})
    assert answers[0] == answers[1]
    assert len(set(answers[0].values())) > 5
    other_seed = TokenSampler(PLAIN, 78, 500)
    assert [other_seed.sample(row.copy(), index) for index in range(20)] != list(answers[0].values())


def test_sampling_does_not_observe() -> None:
    greedy = TokenSampler(replace(PLAIN, temperature=0.0, penalty_last_n=-1, penalty_presence=5.0), 0, 3)
    row = np.array([1.0, 3.0, 2.0], dtype=np.float32)
    assert [greedy.sample(row.copy(), 0), greedy.sample(row.copy(), 1)] == [1, 1]
    greedy.observe([1])
    assert greedy.sample(row.copy(), 2) == 2


def test_observing_prompt_and_answer_in_parts_or_at_once_is_the_same() -> None:
    """What a continued stream relies on: the new agent observes prompt and delivered tokens in one go."""
    parameters = replace(SamplingParameters(), penalty_last_n=8)
    tokens = np.random.default_rng(5).integers(0, 40, 30).tolist()
    at_once, one_by_one = TokenSampler(parameters, 1, 40), TokenSampler(parameters, 1, 40)
    at_once.observe(tokens)
    for token in tokens:
        one_by_one.observe([token])
    rows = [random_row(index, 40, 1.0) for index in range(30)]
    assert [at_once.sample(row.copy(), i) for i, row in enumerate(rows)] == [
        one_by_one.sample(row.copy(), i) for i, row in enumerate(rows)
    ]


@given(parameter_sets, st.integers(0, 1000), st.sets(st.integers(0, 39)), st.sampled_from([math.nan, math.inf, 0.0]))
def test_a_sure_token_is_what_is_taken_whatever_else_is_masked(
    parameters: SamplingParameters, seed: int, masked: set[int], odd: float
) -> None:
    row = random_row(seed, 40, 1.0)
    if odd:
        row[seed % 40] = odd
    before = row.copy()
    sampler = TokenSampler(parameters, seed, 40)
    sampler.observe([1, 2, 3])
    sure = sampler.sure_token(row)
    assert np.array_equal(row, before, equal_nan=True)
    if odd or (parameters.penalty_last_n == -1 and parameters.penalty_repeat != 1):
        assert sure is None
    if sure is None:
        return
    row[sorted(masked - {sure})] = -np.inf
    assert sampler.sample(row, 0) == sure


def test_only_a_greedy_sampler_is_sure() -> None:
    row = random_row(3, 40, 1.0)
    assert TokenSampler(replace(PLAIN, temperature=0.0), 1, 40).sure_token(row) == int(row.argmax())
    assert TokenSampler(PLAIN, 1, 40).sure_token(row) is None
    repeating = replace(PLAIN, temperature=0.0, penalty_last_n=-1, penalty_repeat=1.5)
    assert TokenSampler(repeating, 1, 40).sure_token(row) is None


def test_greedy_takes_the_lower_id_of_a_tie_after_penalties() -> None:
    greedy = TokenSampler(replace(PLAIN, temperature=0.0, penalty_last_n=-1, penalty_presence=1.0), 0, 4)
    greedy.observe([3])
    assert greedy.sample(np.array([1.0, 2.0, 2.0, 3.0], dtype=np.float32), 0) == 1


EACH_PATH = [
    pytest.param(replace(PLAIN, temperature=0.0), id="greedy"),
    pytest.param(PLAIN, id="the whole row"),
    pytest.param(replace(PLAIN, top_k=80), id="top_k"),
    pytest.param(replace(PLAIN, top_p=0.9), id="top_p"),
    pytest.param(replace(PLAIN, min_p=0.01), id="min_p"),
    pytest.param(SamplingParameters(), id="defaults"),
]


@pytest.mark.parametrize("parameters", EACH_PATH)
@pytest.mark.parametrize("spoiled", [np.nan, np.inf])
def test_a_row_that_allows_no_token_yields_none(parameters: SamplingParameters, spoiled: float) -> None:
    """llama.cpp's samplers return a token (measured: 30) for a row of -inf or NaN, without an error."""
    sampler = TokenSampler(parameters, 1, 40_000)
    sampler.observe([1, 2, 3])
    assert sampler.sample(np.full(40_000, -np.inf, dtype=np.float32), 0) is None
    row = random_row(1, 40_000, 1.0)
    row[31_000] = spoiled
    assert sampler.sample(row, 0) is None


@pytest.mark.parametrize("parameters", EACH_PATH)
@pytest.mark.parametrize("size", [1_000, 40_000])
def test_a_masked_token_is_never_drawn(parameters: SamplingParameters, size: int) -> None:
    allowed = [7, size // 2, size - 1]
    drawn = set()
    for index in range(40):
        row = np.full(size, -np.inf, dtype=np.float32)
        row[allowed] = [0.5, 0.0, 0.25]
        drawn.add(TokenSampler(parameters, 3, size).sample(row, index))
    assert drawn <= set(allowed)
    assert len(drawn) == (1 if parameters.temperature == 0 else 3)


@pytest.mark.parametrize("parameters", EACH_PATH)
def test_the_extremes_of_float32_are_ordinary_logits(parameters: SamplingParameters) -> None:
    """One token far above all others is certain, whatever its logit."""
    row = np.full(2_000, -3.4e38, dtype=np.float32)
    row[1_234] = 3.4e38
    assert TokenSampler(parameters, 1, 2_000).sample(row, 0) == 1_234


@given(
    st.builds(
        SamplingParameters,
        temperature=st.sampled_from(ODD_FLOATS),
        top_k=st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1, 2**70]),
        top_p=st.sampled_from(ODD_FLOATS),
        min_p=st.sampled_from(ODD_FLOATS),
        penalty_last_n=st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1]),
        penalty_frequency=st.sampled_from(ODD_FLOATS),
        penalty_presence=st.sampled_from(ODD_FLOATS),
        penalty_repeat=st.sampled_from(ODD_FLOATS),
    )
)
def test_no_parameters_raise_and_all_draw_a_token(parameters: SamplingParameters) -> None:
    """The balancer stores odd states as Paddler does; a warning would be an error here."""
    sampler = TokenSampler(parameters, 1, 700)
    sampler.observe([1, 2, 3, 2])
    row = random_row(1, 700, 2.0)
    row[::3] = -np.inf
    token = sampler.sample(row, 0)
    assert token is not None
    assert token % 3 != 0


@pytest.mark.parametrize("temperature", [math.nan, 0.0, -1.0, -math.inf, 1e-46, 1e-320])
def test_temperatures_that_are_not_positive_in_float32_are_greedy(temperature: float) -> None:
    row = np.array([0.0, 1e-3, 0.0], dtype=np.float32)
    sampler = TokenSampler(replace(PLAIN, temperature=temperature), 0, 3)
    assert {sampler.sample(row, index) for index in range(50)} == {1}


def test_an_infinite_temperature_is_uniform_over_the_candidates() -> None:
    row = np.array([0.0, 50.0, 49.9, 49.8], dtype=np.float32)
    sampler = TokenSampler(replace(PLAIN, temperature=math.inf, top_k=3), 0, 4)
    counts = Counter(sampler.sample(row, index) for index in range(600))
    assert set(counts) == {1, 2, 3}
    assert min(counts.values()) > 150


def test_another_temperature_is_used_until_it_is_taken_back() -> None:
    row = np.random.default_rng(5).normal(0, 3, 40).astype(np.float32)
    for wanted, other in ((1.5, 0.0), (0.0, 1.5), (0.7, 0.2)):
        sampler = TokenSampler(replace(PLAIN, temperature=wanted), 9, 40)
        as_wanted = [TokenSampler(replace(PLAIN, temperature=wanted), 9, 40).sample(row.copy(), i) for i in range(60)]
        as_other = [TokenSampler(replace(PLAIN, temperature=other), 9, 40).sample(row.copy(), i) for i in range(60)]
        assert as_wanted != as_other
        assert [sampler.sample(row.copy(), index) for index in range(60)] == as_wanted
        sampler.use_temperature(other)
        assert [sampler.sample(row.copy(), index) for index in range(60)] == as_other
        assert (sampler.sure_token(row) is None) == (other > 0)
        sampler.use_temperature(None)
        assert [sampler.sample(row.copy(), index) for index in range(60)] == as_wanted


def test_another_temperature_never_undoes_a_top_k_of_one() -> None:
    sampler = TokenSampler(replace(PLAIN, temperature=0.5, top_k=1), 9, 40)
    sampler.use_temperature(5.0)
    row = np.arange(40, dtype=np.float32)
    assert {sampler.sample(row.copy(), index) for index in range(60)} == {39}
