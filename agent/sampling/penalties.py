"""Which tokens count for the penalties, and what they do to a row of logits: llama.cpp's order, or SGLang's."""

from collections import Counter, deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agent.sampling.ranking import Logits
from shared.generation import SamplingParameters

WHOLE_CONTEXT = -1
_LARGEST = np.finfo(np.float32).max


class PenaltyWindow:
    """The last `penalty_last_n` tokens seen, kept as distinct ids with their counts.

    Observing costs time per token, applying costs time per distinct id; neither depends on the vocabulary. Other
    negative windows than -1 are off, as in llama.cpp, and so is each factor that is not finite (repeat: positive).
    """

    def __init__(self, parameters: SamplingParameters, vocabulary_size: int, *, subtracts_first: bool = False) -> None:
        repeat = _narrowed(parameters.penalty_repeat, neutral=1.0)
        self._repeat = repeat if repeat > 0 else np.float32(1.0)
        self._frequency = _narrowed(parameters.penalty_frequency, neutral=0.0)
        self._presence = _narrowed(parameters.penalty_presence, neutral=0.0)
        self._subtracts_first = subtracts_first
        self._vocabulary_size = vocabulary_size
        neutral = self._repeat == 1 and self._frequency == 0 and self._presence == 0
        self._capacity_tokens = 0 if neutral else parameters.penalty_last_n
        self._recent: deque[int] = deque()  # in order; only kept when something can leave the window
        # Slot i holds the count of one id; slots [0, len(_slot_of)) are in use.
        self._slot_of: dict[int, int] = {}
        self._ids: npt.NDArray[np.int64] = np.zeros(64, dtype=np.int64)
        self._counts: npt.NDArray[np.float32] = np.zeros(64, dtype=np.float32)

    @property
    def is_off(self) -> bool:
        """Whether the penalties can never change a row."""
        return self._capacity_tokens < WHOLE_CONTEXT or self._capacity_tokens == 0

    def observe(self, tokens: Sequence[int]) -> None:
        """Append tokens; the oldest leave a full window. Ids outside the vocabulary take up room, nothing else."""
        if self.is_off:
            return
        if self._capacity_tokens == WHOLE_CONTEXT:
            self._add(tokens)
            return
        tokens = tokens[-self._capacity_tokens :]  # of a long prompt, only what stays
        self._recent.extend(tokens)
        self._add(tokens)
        leaving = len(self._recent) - self._capacity_tokens
        if leaving > 0:
            self._remove([self._recent.popleft() for _ in range(leaving)])

    def counts(self) -> dict[int, int]:
        """How often each id occurs in the window."""
        return {token: int(self._counts[slot]) for token, slot in self._slot_of.items()}

    def apply(self, row: Logits) -> None:
        """Change the logits of the ids in the window, in place.

        llama.cpp: a logit above zero is divided by `repeat`, any other multiplied; then count * frequency + presence
        is subtracted. In float32 as there, so that results are equal to the last bit. SGLang subtracts first.
        """
        used = len(self._slot_of)
        if not used:
            return
        ids = self._ids[:used]
        logits = row[ids]
        masked = np.isneginf(logits)
        if self._subtracts_first:
            logits = self._scaled(self._lowered(logits))
        else:
            logits = self._lowered(self._scaled(logits))
        # Extreme factors may overflow. One infinite logit would make the whole row unusable, and what a constraint
        # masked must stay so.
        row[ids] = np.where(masked, -np.inf, np.clip(logits, -_LARGEST, _LARGEST))

    def _scaled(self, logits: Logits) -> Logits:
        return logits if self._repeat == 1 else np.where(logits <= 0, logits * self._repeat, logits / self._repeat)

    def _lowered(self, logits: Logits) -> Logits:
        """`logits` of the ids in use, in their slots' order."""
        if self._frequency != 0:
            return logits - (self._counts[: logits.size] * self._frequency + self._presence)
        return logits if self._presence == 0 else logits - self._presence

    def _add(self, tokens: Sequence[int]) -> None:
        for token, count in Counter(tokens).items():
            slot = self._slot_of.get(token)
            if slot is not None:
                self._counts[slot] += count
            elif 0 <= token < self._vocabulary_size:
                self._occupy(token, count)

    def _occupy(self, token: int, count: int) -> None:
        slot = len(self._slot_of)
        if slot == self._ids.size:
            self._ids = np.concatenate((self._ids, np.zeros_like(self._ids)))
            self._counts = np.concatenate((self._counts, np.zeros_like(self._counts)))
        self._slot_of[token] = slot
        self._ids[slot] = token
        self._counts[slot] = count

    def _remove(self, tokens: Sequence[int]) -> None:
        for token, count in Counter(tokens).items():
            slot = self._slot_of.get(token)
            if slot is None:
                continue  # outside the vocabulary
            self._counts[slot] -= count
            if self._counts[slot] == 0:
                self._vacate(token, slot)

    def _vacate(self, token: int, slot: int) -> None:
        """Free a slot by moving the last one into it, so that the slots in use stay contiguous."""
        last = len(self._slot_of) - 1
        moved = int(self._ids[last])
        self._ids[slot] = moved
        self._counts[slot] = self._counts[last]
        self._slot_of[moved] = slot
        del self._slot_of[token]


def _narrowed(value: float, neutral: float) -> np.float32:
    """`value` in float32, or `neutral` where that is not finite."""
    with np.errstate(all="ignore"):
        narrow = np.float32(value)
    return narrow if np.isfinite(narrow) else np.float32(neutral)
