"""The heartbeat of one link, on the loop's own clock with short intervals."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from balancer.agent_link import AgentLink, LinkParts, OutgoingKind
from balancer.link_tasks import watch, write
from balancer.linked_agents import LinkIdentity
from shared.identifiers import AgentId

INTERVAL_SECONDS = 0.05
DEADLINE_SECONDS = 15.0


class Watched:
    """A link under `watch`. `skip` makes the clock jump, as it does for a process that was held up."""

    def __init__(self) -> None:
        self.skipped = 0.0
        self.dropped = asyncio.Event()
        identity = LinkIdentity(AgentId("a"), None, "0.1.0", "127.0.0.1")
        self.link = AgentLink(LinkParts(identity, lambda _: b"", self.dropped.set, self.clock))

    def clock(self) -> float:
        return asyncio.get_running_loop().time() + self.skipped

    async def next_kind(self) -> OutgoingKind:
        entry = await self.link.wait_next()
        self.link.written()
        return entry.kind


@asynccontextmanager
async def watched(interval_seconds: float = INTERVAL_SECONDS) -> AsyncIterator[Watched]:
    one = Watched()
    heartbeat = asyncio.create_task(watch(one.link, one.clock, interval_seconds))
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            yield one
    finally:
        heartbeat.cancel()


async def test_it_pings_at_every_interval() -> None:
    async with watched() as one:
        for _ in range(3):
            assert await one.next_kind() is OutgoingKind.PING
            one.link.heard()


async def test_a_link_that_is_not_heard_for_two_intervals_is_dropped() -> None:
    async with watched() as one:
        await one.dropped.wait()
        assert one.clock() - one.link.last_heard_at >= 2 * INTERVAL_SECONDS
        assert (one.link.problem or "").startswith("nothing was heard")


async def test_when_this_process_was_held_up_the_agent_gets_a_moment_to_be_heard() -> None:
    async with watched(interval_seconds=0.5) as one:
        await asyncio.sleep(0)
        one.skipped = 100.0
        assert await one.next_kind() is OutgoingKind.PING
        assert not one.dropped.is_set()
        one.link.heard()
        assert await one.next_kind() is OutgoingKind.PING
        assert not one.dropped.is_set()


class BrokenSocket:
    """A websocket whose connection is gone."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def send_bytes(self, data: bytes) -> None:
        raise self.error


@pytest.mark.parametrize("error", [ConnectionResetError("gone"), RuntimeError("closed")])
async def test_a_write_that_fails_drops_the_link_and_ends_the_writer(error: Exception) -> None:
    async with watched() as one:
        one.link.send_frame(b"x")
        await write(BrokenSocket(error), one.link)  # type: ignore[arg-type]
        assert one.dropped.is_set()
