"""Every token that the mask does not allow is -inf, and nothing else is touched, whatever the lengths."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.constraint.token_mask import Bits, MaskWriter, allowed_tokens, new_bits


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


def test_a_row_that_is_broken_already_stays_broken() -> None:
    row = np.array([np.nan, -np.inf, np.inf, 1.0], dtype=np.float32)
    MaskWriter(4).apply(row, bits_of({0, 1, 2}, 4))
    assert np.isnan(row[0])
    assert row[1:].tolist() == [-np.inf, np.inf, -np.inf]


@given(tokens=st.sets(st.integers(0, 199)))
def test_the_allowed_ids_are_those_of_the_mask(tokens: set[int]) -> None:
    assert allowed_tokens(bits_of(tokens, 200), 200).tolist() == sorted(tokens)
