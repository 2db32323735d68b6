"""A set whose smallest member by key is at hand: the order of the room, deadlines, agents by load.

Putting, discarding and looking at the first are O(log n) or better. Discarded entries stay in the heap until they
come up or until they outnumber the living; so the heap is never more than a constant factor larger than the set.
"""

import heapq
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_SPARE_ENTRIES = 32


class PrioritySet(Generic[T]):
    """Members are hashable and are compared by their keys only; equal keys come out in the order they were put."""

    __slots__ = ("_heap", "_living", "_serial")

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, T]] = []
        self._living: dict[T, tuple[Any, int]] = {}  # member -> (key, serial of its entry in the heap)
        self._serial = 0

    def put(self, member: T, key: Any) -> None:
        """Add a member, or move it if it has another key now."""
        known = self._living.get(member)
        if known is not None and known[0] == key:
            return
        self._serial += 1
        self._living[member] = (key, self._serial)
        heapq.heappush(self._heap, (key, self._serial, member))
        self._shrink()

    def discard(self, member: T) -> None:
        """Remove a member if it is there."""
        if self._living.pop(member, None) is not None:
            self._shrink()

    def first(self) -> T | None:
        """The member with the smallest key, or None."""
        entry = self._first_entry()
        return None if entry is None else entry[2]

    def first_key(self) -> Any | None:
        """The smallest key, or None."""
        entry = self._first_entry()
        return None if entry is None else entry[0]

    def key_of(self, member: T) -> Any | None:
        """The member's key, or None when it is not in the set."""
        known = self._living.get(member)
        return None if known is None else known[0]

    def __len__(self) -> int:
        return len(self._living)

    def __contains__(self, member: object) -> bool:
        return member in self._living

    def __iter__(self) -> Iterator[T]:
        """All members in no particular order."""
        return iter(self._living)

    def _first_entry(self) -> tuple[Any, int, T] | None:
        heap = self._heap
        while heap:
            entry = heap[0]
            known = self._living.get(entry[2])
            if known is not None and known[1] == entry[1]:
                return entry
            heapq.heappop(heap)
        return None

    def _shrink(self) -> None:
        if len(self._heap) <= 2 * len(self._living) + _SPARE_ENTRIES:
            return
        self._heap = [(key, serial, member) for member, (key, serial) in self._living.items()]
        heapq.heapify(self._heap)
