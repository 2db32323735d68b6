"""What a request adds to the logits of some tokens (`logit_bias`)."""

from collections.abc import Sequence

import numpy as np

from agent.sampling.ranking import Logits

_LARGEST = np.finfo(np.float32).max


class LogitBias:
    """Added after the penalties, before truncation and temperature. No limit of 100 as in OpenAI's API: what is too
    large for a float32 is the largest one."""

    def __init__(self, pairs: Sequence[tuple[int, float]], vocabulary_size: int) -> None:
        """Ids outside the vocabulary, and numbers that are none, do nothing."""
        kept = [(token, bias) for token, bias in pairs if 0 <= token < vocabulary_size and bias == bias]
        self._ids = np.array([token for token, _ in kept], dtype=np.int64)
        biases = np.array([bias for _, bias in kept], dtype=np.float64)
        self._biases = np.clip(biases, -_LARGEST, _LARGEST).astype(np.float32)

    @property
    def is_off(self) -> bool:
        """Whether nothing is ever added."""
        return self._ids.size == 0

    def apply(self, row: Logits) -> None:
        """Change the row in place. What a constraint masked (-inf) stays so, and nothing becomes infinite."""
        logits = row[self._ids]
        row[self._ids] = np.where(np.isneginf(logits), -np.inf, np.clip(logits + self._biases, -_LARGEST, _LARGEST))
