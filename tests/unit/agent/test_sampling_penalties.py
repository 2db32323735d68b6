"""The window that the penalties look at, and what they do to a row."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sampling.penalties import PenaltyWindow
from shared.generation import SamplingParameters

VOCABULARY = 12
PENALISING = SamplingParameters(penalty_last_n=-1, penalty_frequency=0.5, penalty_presence=0.25, penalty_repeat=2.0)


def window(last_n: int) -> PenaltyWindow:
    return PenaltyWindow(replace(PENALISING, penalty_last_n=last_n), VOCABULARY)


def penalised(parameters: SamplingParameters, tokens: list[int], row: list[float]) -> list[float]:
    logits = np.array(row, dtype=np.float32)
    subject = PenaltyWindow(parameters, len(row))
    subject.observe(tokens)
    subject.apply(logits)
    return [float(logit) for logit in logits]


@given(st.integers(1, 9), st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=14), max_size=12))
def test_a_window_of_n_counts_the_last_n_tokens_however_they_arrive(last_n: int, arrivals: list[list[int]]) -> None:
    subject = window(last_n)
    seen: list[int] = []
    for tokens in arrivals:
        subject.observe(tokens)
        seen += tokens
        assert subject.counts() == Counter(seen[-last_n:])


@given(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=14), max_size=12))
def test_minus_one_counts_everything(arrivals: list[list[int]]) -> None:
    subject = window(-1)
    for tokens in arrivals:
        subject.observe(tokens)
    assert subject.counts() == Counter(token for tokens in arrivals for token in tokens)


@given(st.integers(1, 9), st.lists(st.integers(0, VOCABULARY - 1), max_size=40))
def test_applying_uses_the_window_as_it_is_now(last_n: int, tokens: list[int]) -> None:
    """Slots are moved when ids leave; a stale one would penalise a token that has left."""
    subject = window(last_n)
    for end, token in enumerate(tokens, start=1):
        subject.observe([token])
        counts = Counter(tokens[:end][-last_n:])
        row = np.full(VOCABULARY, 4.0, dtype=np.float32)
        subject.apply(row)
        assert row.tolist() == [2.0 - 0.25 - 0.5 * counts[i] if i in counts else 4.0 for i in range(VOCABULARY)]


def test_many_distinct_ids_fit() -> None:
    subject = PenaltyWindow(PENALISING, 10_000)
    subject.observe(range(0, 10_000, 3))
    row = np.full(10_000, 4.0, dtype=np.float32)
    subject.apply(row)
    assert np.flatnonzero(row != 4.0).tolist() == list(range(0, 10_000, 3))


def test_positive_logits_are_divided_others_multiplied_then_the_rest_is_subtracted() -> None:
    assert penalised(PENALISING, [0, 1, 1, 2], [4.0, -4.0, 0.0, 4.0]) == [
        2.0 - 0.5 - 0.25,
        -8.0 - 2 * 0.5 - 0.25,
        0.0 - 0.5 - 0.25,
        4.0,
    ]


def test_presence_counts_once_and_frequency_each_time() -> None:
    presence = replace(PENALISING, penalty_repeat=1.0, penalty_frequency=0.0)
    frequency = replace(PENALISING, penalty_repeat=1.0, penalty_presence=0.0)
    assert penalised(presence, [0, 0, 0], [1.0, 1.0]) == [0.75, 1.0]
    assert penalised(frequency, [0, 0, 0], [1.0, 1.0]) == [-0.5, 1.0]


def test_a_masked_token_stays_masked() -> None:
    """-inf times a repeat of 0 would be NaN and spoil the row."""
    for repeat in (0.0, 0.5, 2.0):
        assert penalised(replace(PENALISING, penalty_repeat=repeat), [0], [-np.inf, 1.0])[0] == -np.inf


@pytest.mark.parametrize("last_n", [0, -2, -(2**31)])
def test_a_window_of_zero_or_of_another_negative_size_is_off(last_n: int) -> None:
    assert window(last_n).is_off
    assert penalised(replace(PENALISING, penalty_last_n=last_n), [0, 1], [1.0, -1.0]) == [1.0, -1.0]


def test_neutral_factors_are_off() -> None:
    neutral = replace(PENALISING, penalty_frequency=0.0, penalty_presence=0.0, penalty_repeat=1.0)
    assert PenaltyWindow(neutral, VOCABULARY).is_off


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e300, -1e300])
def test_factors_that_are_no_float32_are_off(value: float) -> None:
    assert PenaltyWindow(SamplingParameters(-1, 0, 1, 0, -1, value, value, value), VOCABULARY).is_off


@pytest.mark.parametrize("repeat", [0.0, -1.0, 1e-60])
def test_a_repeat_that_is_not_positive_is_off(repeat: float) -> None:
    """llama.cpp accepts 0 and makes every seen token with a positive logit the only choice."""
    only_repeat = replace(PENALISING, penalty_repeat=repeat, penalty_frequency=0.0, penalty_presence=0.0)
    assert PenaltyWindow(only_repeat, VOCABULARY).is_off


def test_a_tiny_repeat_overflows_to_the_largest_logit_not_to_infinity() -> None:
    with np.errstate(over="ignore"):
        tiny = penalised(replace(PENALISING, penalty_repeat=1e-38), [0], [1e10, 1.0])
    assert tiny[0] == np.finfo(np.float32).max


def test_ids_outside_the_vocabulary_take_up_room_and_nothing_else() -> None:
    subject = window(3)
    subject.observe([1, 2, -1, VOCABULARY, 2**40])
    assert subject.counts() == {}
    row = np.ones(VOCABULARY, dtype=np.float32)
    subject.apply(row)
    assert row.tolist() == [1.0] * VOCABULARY
    subject.observe([4, 5, 6])
    assert subject.counts() == {4: 1, 5: 1, 6: 1}


def test_the_additive_penalties_come_last_as_in_llama_cpp_or_first_as_in_sglang() -> None:
    """Token 0 occurs twice: 2 * 0.5 + 0.25 is subtracted, and 2.0 divides what is above zero."""
    after = {}
    for subtracts_first in (False, True):
        subject = PenaltyWindow(PENALISING, 2, subtracts_first=subtracts_first)
        subject.observe([0, 0])
        row = np.array([4.0, 4.0], dtype=np.float32)
        subject.apply(row)
        after[subtracts_first] = row.tolist()
    assert after == {False: [4.0 / 2.0 - 1.25, 4.0], True: [(4.0 - 1.25) / 2.0, 4.0]}
