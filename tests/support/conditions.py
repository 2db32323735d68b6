"""Waiting for something that announces itself nowhere."""

import asyncio
from collections.abc import Callable

DEADLINE_SECONDS = 20.0


async def wait_until(condition: Callable[[], bool], *, within_seconds: float = DEADLINE_SECONDS) -> None:
    """Look again and again until it holds. Raises TimeoutError. Where an event or a stream exists, wait for that."""
    async with asyncio.timeout(within_seconds):
        while not condition():
            await asyncio.sleep(0.005)
