"""Where top_p and min_p cut, and which entry a number selects."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent.sampling import truncation
from agent.sampling.ranking import Logits

# A cut closer than this to its threshold may fall either way: the row's total is summed in float32 exponentials.
UNDECIDED = 1e-5


def ranked(*probabilities: float) -> Logits:
    return np.log(np.array(probabilities, dtype=np.float64)).astype(np.float32)


@st.composite
def rows(draw: st.DrawFn) -> Logits:
    """Peaked, ordinary and flat rows of up to 20,000 entries, some of them masked: each widening step is the last."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    row = generator.normal(size=draw(st.integers(1, 20_000))).astype(np.float32)
    row *= np.float32(draw(st.sampled_from([0.0, 0.5, 3.0, 20.0])))
    masked = generator.random(row.size) < draw(st.sampled_from([0.0, 0.5, 0.99]))
    masked[draw(st.integers(0, row.size - 1))] = False
    row[masked] = -np.inf
    return row


def reference_nucleus(row: Logits, top_p: float) -> list[int]:
    order = np.lexsort((np.arange(row.size), -row))
    weights = np.exp(row[order].astype(np.float64) - float(row.max()))
    total = math.fsum(weights)
    mass, nucleus = 0.0, []
    for token, weight in zip(order.tolist(), weights.tolist(), strict=True):
        nucleus.append(token)
        mass += weight / total
        assume(abs(mass - top_p) > UNDECIDED)
        if mass >= top_p:
            break
    return nucleus


@given(rows(), st.floats(0.001, 0.999))
def test_the_nucleus_of_a_whole_row_is_exact(row: Logits, top_p: float) -> None:
    with np.errstate(all="ignore"):
        nucleus = truncation.top_p_candidates(row, float(row.max()), top_p)
    assert nucleus.tolist() == reference_nucleus(row, top_p)


@given(rows(), st.floats(0.001, 0.999))
def test_heaviest_entries_exceed_their_share_and_say_how(row: Logits, share: float) -> None:
    with np.errstate(all="ignore"):
        heaviest = truncation.heaviest_entries(row, float(row.max()), share, 0.7)
    weights = np.exp((row.astype(np.float64) - float(row.max())) / 0.7)
    assert heaviest.target_mass == pytest.approx(share * weights.sum(), rel=UNDECIDED)
    assert heaviest.cumulative_mass[-1] > heaviest.target_mass
    assert heaviest.cumulative_mass == pytest.approx(np.cumsum(weights[heaviest.ids]))


@pytest.mark.parametrize(
    ("top_p", "length"),
    [(-1.0, 1), (0.0, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.51, 3), (0.76, 4), (1.0, 4), (7.0, 4)],
)
def test_top_p_keeps_the_candidate_that_reaches_it_and_none_after(top_p: float, length: int) -> None:
    four_alike = np.full(4, 3.0, dtype=np.float32)
    assert truncation.top_p_length(four_alike, top_p) == length
    assert truncation.top_p_candidates(four_alike, 3.0, top_p).tolist() == list(range(length))


@pytest.mark.parametrize("top_p", [0.001, 0.02, 0.3, 0.999])
def test_a_nucleus_of_a_flat_row_of_any_width_is_exact(top_p: float) -> None:
    """Wider than each widening step, up to the whole row."""
    nucleus = truncation.top_p_candidates(np.zeros(20_000, dtype=np.float32), 0.0, top_p)
    assert nucleus.tolist() == list(range(round(top_p * 20_000)))


@pytest.mark.parametrize(
    ("min_p", "length"),
    [(1e-300, 4), (0.05, 4), (0.2, 3), (0.5, 2), (0.9, 1), (1.0, 1), (2.0, 1), (1e300, 1), (math.inf, 1)],
)
def test_min_p_is_relative_to_the_best(min_p: float, length: int) -> None:
    """Probabilities 0.5, 0.3, 0.15, 0.05: 1, 0.6, 0.3 and 0.1 times the best one."""
    logits = ranked(0.5, 0.3, 0.15, 0.05)
    assert truncation.min_p_length(logits, min_p) == length
    row = logits[[2, 0, 3, 1]]
    candidates = truncation.min_p_candidates(row, float(row.max()), min_p)
    assert candidates.tolist() == [1, 3, 0, 2][:length]


def test_min_p_keeps_all_that_tie_with_the_best() -> None:
    assert truncation.min_p_length(np.array([2, 2, 1], np.float32), 1.0) == 2


@pytest.mark.parametrize(("target", "position"), [(0.0, 0), (0.9, 0), (1.0, 1), (1.4, 1), (1.5, 2), (1.7, 2)])
def test_the_drawn_position_is_the_first_whose_mass_exceeds_the_target(target: float, position: int) -> None:
    assert truncation.drawn_position(np.array([1.0, 1.5, 1.75]), target) == position


def test_an_entry_without_mass_is_never_drawn() -> None:
    """Rounding can put seed * total at the total itself; masked entries come last and have no mass."""
    assert truncation.drawn_position(np.array([1.0, 1.5, 1.5, 1.5]), 1.5) == 1
