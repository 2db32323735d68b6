"""Outcomes of compiling, kept by content: those that were used last, within a number of entries and of bytes."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LeastRecentlyUsed(Generic[Value]):
    """A map of bounded size. Not thread-safe. What weighs more than the whole is not kept at all."""

    def __init__(self, entries: int, weight: int) -> None:
        self._entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._most_entries = entries
        self._most_weight = weight
        self._weight = 0

    def __repr__(self) -> str:
        return f"<LeastRecentlyUsed {len(self._entries)}/{self._most_entries} entries, weight {self._weight}>"

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def weight(self) -> int:
        """Of all entries together."""
        return self._weight

    def get(self, key: Hashable) -> Value | None:
        """The value, which is the most recently used from now on; None when there is none."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, value: Value, weight: int) -> None:
        """Keep the value, and drop those that were used least recently until it fits."""
        old = self._entries.pop(key, None)
        if old is not None:
            self._weight -= old[1]
        if weight > self._most_weight or self._most_entries < 1:
            return
        self._entries[key] = (value, weight)
        self._weight += weight
        while len(self._entries) > self._most_entries or self._weight > self._most_weight:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._weight -= dropped

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._weight = 0
