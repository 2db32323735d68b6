"""The lag of a loop that is on time, and of one that was held up."""

import asyncio
import contextlib
import time

from balancer.loop_lag import LAG_EDGES, LoopLag
from tests.support.conditions import wait_until


async def test_a_loop_that_was_held_up_is_seen() -> None:
    lag = LoopLag(time.monotonic, interval_seconds=0.001)
    watching = asyncio.create_task(lag.run())
    await wait_until(lambda: sum(lag.statistics().counts) >= 2)
    until = time.monotonic() + 0.03
    while time.monotonic() < until:
        pass
    before = sum(lag.statistics().counts)
    await wait_until(lambda: sum(lag.statistics().counts) > before)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    late = lag.statistics().counts[LAG_EDGES.index(0.025) :]
    assert sum(late) >= 1
    assert lag.statistics().total >= 0.025
