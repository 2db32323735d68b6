"""Every token that the mask does not allow is -inf, and nothing else is touched, whatever the lengths."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.constraint.token_mask import Bits, MaskWriter, allowed_tokens, allows_any, drawn_token, new_bits


def bits_of(tokens: set[int], size: int) -> Bits:
    bits = new_bits(size)
    for token in tokens:
        bits.view(np.uint32)[token // 32] |= np.uint32(1 << token % 32)
    return bits


@given(data=st.data(), size=st.integers(1, 300), more=st.integers(-40, 40))
def test_a_row_is_cut_to_what_is_allowed(data: st.DataObject, size: int, more: int) -> None:
    length = max(1, size + more)
    tokens = data.draw(st.sets(st.integers(0, size - 1)))
    row = np.arange(1, length + 1, dtype=np.float32)
    expected = [value if index in tokens else -np.inf for index, value in enumerate(row.tolist())]
    MaskWriter(size).apply(row, bits_of(tokens, size))
    assert row.tolist() == expected


def test_bits_past_the_vocabulary_allow_nothing() -> None:
    bits = new_bits(70)
    bits.fill(-1)
    row = np.zeros(100, dtype=np.float32)
    MaskWriter(70).apply(row, bits)
    assert np.isfinite(row).sum() == 70
    assert allowed_tokens(bits, 70).tolist() == list(range(70))


def test_a_large_vocabulary_is_written_in_parts_without_a_gap() -> None:
    size = 262_144 + 13
    tokens = set(range(5, size, 9973)) | {0, 65_535, 65_536, size - 1}
    row = np.ones(size, dtype=np.float32)
    MaskWriter(size).apply(row, bits_of(tokens, size))
    assert np.flatnonzero(row == 1).tolist() == sorted(tokens)
    assert np.isneginf(row).sum() == size - len(tokens)


@pytest.mark.parametrize("size", [4096, 4096 + 13, 4096 + 32])
@pytest.mark.parametrize("allowed", [0, 1, 7, 100, 2000, 3900, 4085, 4096])
def test_it_is_the_same_whether_few_or_most_are_allowed(size: int, allowed: int) -> None:
    random = Random(allowed)
    tokens = set(random.sample(range(4096), allowed))
    row = np.arange(1, size + 1, dtype=np.float32)
    row[random.sample(range(4096), 50)] = np.nan
    expected = np.array([value if index in tokens else min(value, -np.inf) for index, value in enumerate(row)])
    MaskWriter(size).apply(row, bits_of(tokens, size))
    assert np.array_equal(row, np.where(np.isnan(row), np.nan, expected), equal_nan=True)
    assert np.isnan(row).sum() == 50


def test_a_row_that_is_broken_already_stays_broken() -> None:
    row = np.array([np.nan, -np.inf, np.inf, 1.0], dtype=np.float32)
    MaskWriter(4).apply(row, bits_of({0, 1, 2}, 4))
    assert np.isnan(row[0])
    assert row[1:].tolist() == [-np.inf, np.inf, -np.inf]


@given(tokens=st.sets(st.integers(0, 199)))
def test_the_allowed_ids_are_those_of_the_mask(tokens: set[int]) -> None:
    assert allowed_tokens(bits_of(tokens, 200), 200).tolist() == sorted(tokens)


@given(tokens=st.sets(st.integers(0, 209)), size=st.integers(1, 210), without=st.sets(st.integers(0, 209), max_size=3))
def test_a_drawn_token_is_an_allowed_one_and_each_can_be_drawn(tokens: set[int], size: int, without: set[int]) -> None:
    bits, chance = bits_of(tokens, 210), Random(1)
    inside = {token for token in tokens if token < size}
    assert allows_any(bits, size) == bool(inside)
    possible = inside - without
    if not possible:
        assert drawn_token(bits, size, without, chance) is None
        return
    drawn = {drawn_token(bits, size, without, chance) for _ in range(20)}
    assert drawn <= possible
    if len(possible) == 1:
        assert drawn == possible


def test_every_allowed_token_is_drawn_some_time() -> None:
    tokens = {0, 31, 32, 95, 96, 209}
    chance = Random(3)
    assert {drawn_token(bits_of(tokens, 210), 210, (), chance) for _ in range(200)} == tokens
