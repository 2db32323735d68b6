"""Which adapter the next decode is for: one decode evaluates with one set of weights, so adapters take turns."""

from collections.abc import Collection

AdapterName = str | None
"""A LoRA adapter by its name in the desired state; None: the model as it is."""


class AdapterTurns:
    """The one whose turn came longest ago is next. Newcomers queue up behind all others."""

    def __init__(self) -> None:
        self._turns: dict[AdapterName, int] = {}
        self._count = 0

    def choose(self, present: Collection[AdapterName]) -> AdapterName:
        """Of the adapters of members that could be evaluated, most urgent first, at least one. It stays the choice
        until `done`, so that a decode that failed is tried again with the same members."""
        self._turns = {adapter: turn for adapter, turn in self._turns.items() if adapter in present}
        for adapter in present:
            if adapter not in self._turns:
                self._queue(adapter)
        return min(self._turns, key=self._turns.__getitem__)

    def done(self, adapter: AdapterName) -> None:
        """It had its turn, or had no use for it."""
        self._queue(adapter)

    def _queue(self, adapter: AdapterName) -> None:
        self._count += 1
        self._turns[adapter] = self._count
