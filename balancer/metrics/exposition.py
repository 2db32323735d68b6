"""`/metrics`: frozen records in Prometheus' text form, taken at the moment of the scrape.

A source is asked within the event loop, where it copies figures, which is quick and consistent. What it returns is
run in a thread: a fleet of a thousand agents in detail is a hundred thousand lines, for which no token waits.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Final

from shared.metric_families import Family, exposition_text

MAX_SCRAPES_AT_ONCE: Final = 2  # anybody may ask; the others wait for their turn, not for the process's threads

Families = Callable[[], Iterable[Family]]
"""Makes families out of figures that do not change any more; for any thread."""

Source = Callable[[], Families]
"""Copies the figures of this moment; for the event loop."""


class Metrics:
    """All sources of one balancer; their names must differ."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)
        self._turn = asyncio.Semaphore(MAX_SCRAPES_AT_ONCE)

    async def exposition(self) -> bytes:
        """The whole text; its type is CONTENT_TYPE."""
        async with self._turn:
            copied = [source() for source in self._sources]
            families = chain.from_iterable(made() for made in copied)  # each is called in the thread
            return await asyncio.to_thread(exposition_text, families)
