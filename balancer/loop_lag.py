"""How late the event loop is: everything waits its turn there, so a call that blocks delays every token."""

import asyncio
from collections.abc import Callable
from typing import Final

from shared.agent_figures import Histogram, HistogramCounts

INTERVAL_SECONDS: Final = 0.5
LAG_EDGES: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""From a timer's own grain to where links are taken for silent."""


class LoopLag:
    """Sleeps, and sees how much longer than asked for that took.

    `clock`: monotonic seconds, and not the loop's own: uvloop's stands still while callbacks run, and shows whole ms.
    """

    def __init__(self, clock: Callable[[], float], interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._lag = Histogram(LAG_EDGES)

    def __repr__(self) -> str:
        return f"<LoopLag {self._lag!r}>"

    async def run(self) -> None:
        """For ever; ends only by cancellation."""
        while True:
            due = self._clock() + self._interval_seconds
            await asyncio.sleep(self._interval_seconds)
            self._lag.observe(max(0.0, self._clock() - due))

    def statistics(self) -> HistogramCounts:
        """A copy that does not change any more."""
        return self._lag.read()
