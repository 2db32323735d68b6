"""Which entries of a row may be drawn (top_k, top_p, min_p) and which one a number in [0, 1) selects.

Pure functions on float32 logits. `best` is the row's largest logit, finite. Candidates are always in rank order
(`ranking`), so each truncation is a prefix and keeps at least the best entry.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agent.sampling.ranking import Logits, TokenIds, rank, rank_top

Masses = npt.NDArray[np.float64]

_WIDENING_STEPS = (64, 512, 8192)


@dataclass(frozen=True, slots=True)
class HeaviestEntries:
    """The best entries of a row that together hold more than `target_mass` (or all entries).

    Masses are relative to the best entry's, which is 1.
    """

    ids: TokenIds  # in rank order
    cumulative_mass: Masses  # same shape
    target_mass: float


def masses(logits: Logits, best: float, temperature: float = 1.0) -> Masses:
    """Probabilities of the entries up to a common factor, exp((logit - best) / temperature). Never NaN."""
    return np.exp((logits.astype(np.float64) - best) / temperature)


def top_p_length(logits: Logits, top_p: float, temperature: float = 1.0) -> int:
    """How many ranked candidates the nucleus keeps: the shortest prefix with at least `top_p` of their mass."""
    cumulative = np.cumsum(masses(logits, float(logits[0]), temperature))
    return _first_reaching(cumulative, top_p * float(cumulative[-1]))


def min_p_length(logits: Logits, min_p: float, temperature: float = 1.0) -> int:
    """How many ranked candidates are at least `min_p` times as probable as the best of them."""
    below = np.searchsorted(-logits, -min_p_threshold(float(logits[0]), min_p, temperature), side="right")
    return max(1, int(below))


def min_p_threshold(best: float, min_p: float, temperature: float = 1.0) -> np.float32:
    """The lowest logit that `min_p` > 0 keeps. In float32, as llama.cpp compares."""
    return np.float32(best) + np.float32(math.log(min_p) * temperature)


def min_p_candidates(row: Logits, best: float, min_p: float, temperature: float = 1.0) -> TokenIds:
    """The ranked ids that `min_p` keeps of a whole row."""
    ids = np.flatnonzero(row >= min_p_threshold(best, min_p, temperature))
    if ids.size == 0:  # min_p above 1
        return rank_top(row, 1)
    return rank(row[ids], ids)


def top_p_candidates(row: Logits, best: float, top_p: float, temperature: float = 1.0) -> TokenIds:
    """The ranked ids of the nucleus of a whole row."""
    heaviest = heaviest_entries(row, best, top_p, temperature)
    return heaviest.ids[: _first_reaching(heaviest.cumulative_mass, heaviest.target_mass)]


def heaviest_entries(row: Logits, best: float, share: float, temperature: float) -> HeaviestEntries:
    """As many of the row's best entries as it takes to exceed `share` (0 to 1) of its mass at `temperature`.

    The row's total needs one pass over it; a sort of the whole row only happens when a flat row needs very many.
    """
    narrow = (row - np.float32(best)) / np.float32(temperature)
    target = share * float(np.sum(np.exp(narrow, out=narrow), dtype=np.float64))
    for count in _WIDENING_STEPS:
        ids = rank_top(row, count)
        cumulative = np.cumsum(masses(row[ids], best, temperature))
        if cumulative[-1] > target:
            return HeaviestEntries(ids, cumulative, target)
    ids = rank_top(row, row.size)
    cumulative = np.cumsum(masses(row[ids], best, temperature))
    # The total again, now from the same sum as the parts: it must not exceed them by a rounding.
    return HeaviestEntries(ids, cumulative, share * float(cumulative[-1]))


def drawn_position(cumulative_mass: Masses, target_mass: float) -> int:
    """The first position whose cumulative mass exceeds the target: inverse of the distribution function.

    Never one without mass, also when rounding puts the target at the very end.
    """
    position = int(np.searchsorted(cumulative_mass, target_mass, side="right"))
    last_with_mass = int(np.searchsorted(cumulative_mass, cumulative_mass[-1], side="left"))
    return min(position, last_with_mass)


def _first_reaching(cumulative: Masses, target: float) -> int:
    """Length of the shortest prefix whose mass is not below the target; at least 1."""
    return min(int(np.searchsorted(cumulative, target, side="left")) + 1, cumulative.size)
