"""The best entries of a row, against sorting all of it."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.sampling.ranking import Logits, rank, rank_top


def reference_ranking(row: Logits) -> list[int]:
    logits = row.tolist()
    return sorted(range(len(logits)), key=lambda token: (-logits[token], token))


@st.composite
def rows(draw: st.DrawFn) -> Logits:
    """Rows of up to 3,000 entries; few distinct values, so that ties straddle every cut; some entries masked."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(1, 3_000))
    distinct = draw(st.sampled_from([1, 2, 5, 50, 100_000]))
    row = (generator.integers(0, distinct, size) - distinct // 2).astype(np.float32) / np.float32(8)
    if draw(st.booleans()):
        row[generator.random(size) < draw(st.sampled_from([0.1, 0.9, 1.0]))] = -np.inf
    if draw(st.booleans()):
        row.sort()
    return row


@given(rows(), st.integers(1, 40) | st.integers(1, 4_000))
def test_the_top_is_the_beginning_of_the_sorted_row(row: Logits, count: int) -> None:
    before = row.copy()
    assert rank_top(row, count).tolist() == reference_ranking(row)[:count]
    assert np.array_equal(row, before)


@pytest.mark.parametrize("size", [256 * 128, 256 * 128 + 1, 257 * 128 - 1])
@pytest.mark.parametrize("where", ["at the end", "in one block", "one in each block"])
def test_the_best_are_found_wherever_they_lie(size: int, where: str) -> None:
    row = np.random.default_rng(3).normal(size=size).astype(np.float32)
    columns = size // 128
    places = {
        "at the end": range(size - 40, size),
        "in one block": range(5, 40 * columns, columns),  # blocks are columns
        "one in each block": range(100, 140),
    }[where]
    for height, place in enumerate(places):
        row[place] = 10 + height
    assert rank_top(row, 40).tolist() == list(reversed(places))
    assert rank_top(row, 60).tolist() == reference_ranking(row)[:60]


@example([0.0, -0.0, 1e-45, -1e-45])
@example([float("inf"), float("-inf"), 3.4e38, -3.4e38])
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_all_floats_rank_by_value_then_by_id(logits: list[float]) -> None:
    row = np.array(logits, dtype=np.float32)
    assert rank(row, np.arange(row.size)).tolist() == reference_ranking(row)


@pytest.mark.parametrize("count", [0, -1])
def test_nothing_asked_for_is_nothing(count: int) -> None:
    assert rank_top(np.zeros(1_000, dtype=np.float32), count).size == 0
