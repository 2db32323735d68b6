"""Log-probabilities of tokens: log-softmax of a raw row of logits."""

from collections.abc import Sequence

import numpy as np

from agent.core.backend import LogprobsWanted
from agent.sampling.ranking import Logits, rank_top

LOWEST_LOGPROB = -9999.0
"""Stands for every smaller one, zero probability included, as in OpenAI's API: JSON has no infinity."""


class RowLogprobs:
    """Implements `LogprobReading`. Keeps a copy of the row (1 MB for 262,144 tokens), since the sampler changes it.

    Error against float64: below 1e-6. A row that holds NaN, or no finite number, says LOWEST_LOGPROB of each token.
    """

    def __init__(self, row: Logits, wanted: LogprobsWanted) -> None:
        """`row`: float32, shape (vocabulary_size,). Ids in `wanted` are in the vocabulary."""
        self._row = row.copy()
        self._total = _log_of_sum(self._row)
        self.top: Sequence[tuple[int, float]] = [
            (int(token), self.of(int(token))) for token in self._likeliest(wanted.top_count)
        ]
        self.asked: Sequence[tuple[int, float]] = [(token, self.of(token)) for token in wanted.token_ids]

    def of(self, token: int) -> float:
        """Of one token of the vocabulary."""
        logprob = float(self._row[token]) - self._total
        return max(LOWEST_LOGPROB, logprob) if logprob == logprob else LOWEST_LOGPROB

    def _likeliest(self, count: int) -> Sequence[int]:
        if not count or np.isnan(self._total):
            return list(range(count))
        return [int(token) for token in rank_top(self._row, count)]


def _log_of_sum(row: Logits) -> float:
    with np.errstate(all="ignore"):
        best = row.max()
        if not np.isfinite(best):
            return float("nan")
        return float(best) + float(np.log(np.sum(np.exp(row - best), dtype=np.float64)))
