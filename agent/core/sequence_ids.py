"""Which sequence ids of the context are taken: two ranges, so that cached prefixes never take a running member's id.

Ids below `slots` are for rows of batches; the rest up to HIGHEST_SEQUENCE_ID park idle prefixes, also above
`n_seq_max`: llama.cpp copies to such ids though no row may use them, and a small `n_seq_max` saves memory. One that
rows may use can be kept out of both: llama.cpp saves cells of such ids only.
"""

import heapq
from collections.abc import Iterable

from agent.core.backend import HIGHEST_SEQUENCE_ID


class SequenceIds:
    """Hands out the lowest free id of a range; the holder gives it back with `release`."""

    def __init__(self, slots: int, row_ids: int = 0) -> None:
        """`slots` is at most HIGHEST_SEQUENCE_ID, so that one id at least is left for parking. Of `row_ids`, those
        that rows may use, the highest is kept out as `spare`, if there is one to spare."""
        if not 1 <= slots <= HIGHEST_SEQUENCE_ID:
            raise ValueError(f"{slots} slots; 1 to {HIGHEST_SEQUENCE_ID} are possible")
        self._slots = slots
        self._free_running = list(range(slots))
        self.spare = row_ids - 1 if row_ids > slots and slots < HIGHEST_SEQUENCE_ID else None
        self._free_parking = [one for one in range(slots, HIGHEST_SEQUENCE_ID + 1) if one != self.spare]
        self._taken: set[int] = set()

    def __repr__(self) -> str:
        return f"<SequenceIds {len(self._free_running)}+{len(self._free_parking)} free | {len(self._taken)} taken>"

    @property
    def taken(self) -> frozenset[int]:
        """Ids in use."""
        return frozenset(self._taken)

    def take_running(self) -> int:
        """An id for rows of batches. Raises IndexError when more members run than there are slots (a bug)."""
        return self._take(self._free_running)

    def take_parking(self) -> int | None:
        """An id for an idle prefix; None when all are taken."""
        return self._take(self._free_parking) if self._free_parking else None

    def release(self, sequence_id: int) -> None:
        """Give an id back. Raises KeyError when it is not taken (a bug)."""
        self._taken.remove(sequence_id)
        heapq.heappush(self._free_running if sequence_id < self._slots else self._free_parking, sequence_id)

    def check_invariants(self, used: Iterable[int]) -> None:
        """Free + used = total, and exactly `used` are taken. Raises AssertionError."""
        assert self._taken == set(used), (self._taken, used)
        free = [*self._free_running, *self._free_parking]
        assert len(free) == len(set(free)), "an id is free twice"
        assert self._taken.isdisjoint(free), "an id is free and taken"
        assert len(free) + len(self._taken) == HIGHEST_SEQUENCE_ID + (self.spare is None), "an id is lost"

    def _take(self, free: list[int]) -> int:
        sequence_id = heapq.heappop(free)
        self._taken.add(sequence_id)
        return sequence_id
