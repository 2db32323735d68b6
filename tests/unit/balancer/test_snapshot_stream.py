"""The end of event streams, at the one moment that no test over a socket can choose."""

import asyncio

from balancer.change_signal import ChangeSignal
from balancer.snapshot_stream import SnapshotStreams


async def test_all_streams_can_end_in_the_moment_in_which_one_is_about_to_say_that_it_lives() -> None:
    streams = SnapshotStreams(ChangeSignal(), keep_alive_seconds=10.0, least_seconds_between=0.0, most=1)
    long_ago = asyncio.get_running_loop().time() - 1.0
    waiting = asyncio.create_task(streams._has_changed(0, long_ago))
    await asyncio.sleep(0)  # it waits
    await asyncio.sleep(0)  # its time is over, but it has not been woken yet
    assert not waiting.done()
    streams.end_all()
    assert not await waiting
