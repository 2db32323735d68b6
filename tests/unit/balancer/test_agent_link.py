"""The outgoing queue of one link: order, bounds, and when a link is given up."""

import asyncio

import pytest

from balancer.agent_link import AgentLink, LinkParts, Outgoing, OutgoingKind
from balancer.link_traffic import LinkTraffic
from balancer.linked_agents import LinkIdentity
from shared.identifiers import AgentId
from shared.messages_to_agent import Cancel, MessageToAgent
from tests.support.switchboard_driver import Clock

MESSAGE = Cancel(member=1, attempt=1)
PATIENCE_SECONDS = 10.0


class Bench:
    """A link whose messages are `size` bytes each; `drops` counts how often its connection was dropped."""

    def __init__(self, *, max_outgoing_bytes: int = 100, size: int | None = 40) -> None:
        self.clock = Clock()
        self.drops = 0
        self.size = size
        identity = LinkIdentity(AgentId("a"), "name", "0.1.0", "127.0.0.1")
        self.traffic = LinkTraffic()
        self.link = AgentLink(LinkParts(identity, self.encode, self.drop, self.clock, max_outgoing_bytes, self.traffic))

    def encode(self, message: MessageToAgent) -> bytes | None:
        return None if self.size is None else bytes(self.size)

    def drop(self) -> None:
        self.drops += 1

    async def next(self) -> Outgoing:
        entry = await self.link.wait_next()
        self.link.written()
        return entry


async def test_entries_come_out_in_order() -> None:
    bench = Bench()
    bench.link.send_frame(b"welcome")
    bench.link.send(MESSAGE)
    bench.link.ping()
    bench.link.pong(b"p")
    bench.link.close(1001, "bye")
    kinds = [(await bench.next()).kind for _ in range(5)]
    assert kinds == [
        OutgoingKind.MESSAGE,
        OutgoingKind.MESSAGE,
        OutgoingKind.PING,
        OutgoingKind.PONG,
        OutgoingKind.CLOSE,
    ]
    assert bench.link.queued_bytes == 0


async def test_a_writer_waits_for_the_first_entry_and_keeps_it_until_it_is_written() -> None:
    bench = Bench()
    writer = asyncio.create_task(bench.link.wait_next())
    await asyncio.sleep(0)
    assert not writer.done()
    bench.link.send(MESSAGE)
    assert (await writer).kind is OutgoingKind.MESSAGE
    assert bench.link.queued_bytes == 40
    assert await bench.link.wait_next() is await bench.link.wait_next()


def test_over_its_bytes_the_link_is_dropped_once() -> None:
    bench = Bench()
    assert all(bench.link.send(MESSAGE) for _ in range(5))
    assert bench.drops == 1
    assert bench.link.queued_bytes == 80
    assert bench.link.problem == "more waits to be sent than the bound allows"


def test_a_message_that_no_link_can_carry_is_reported_and_hurts_nothing() -> None:
    bench = Bench(size=None)
    assert not bench.link.send(MESSAGE)
    assert (bench.drops, bench.link.queued_bytes) == (0, 0)


@pytest.mark.parametrize(("queued", "work_bytes", "has_room"), [(0, 5000, True), (1, 35, True), (1, 36, False)])
def test_work_fills_three_quarters_of_the_bound_and_an_idle_link_takes_any(
    queued: int, work_bytes: int, has_room: bool
) -> None:
    bench = Bench()
    for _ in range(queued):
        bench.link.send(MESSAGE)
    assert bench.link.has_room_for(work_bytes) is has_room


async def test_nothing_is_queued_after_the_close() -> None:
    bench = Bench()
    bench.link.close(1001, "first reason")
    bench.link.close(1000, "second")
    bench.link.send(MESSAGE)
    assert await bench.next() == Outgoing(OutgoingKind.CLOSE, b"first reason", 1001)
    assert "0 frames" in repr(bench.link)


def test_a_reason_fits_into_a_control_frame() -> None:
    bench = Bench(max_outgoing_bytes=1000)
    bench.link.close(1002, "x" * 500)
    assert bench.link.queued_bytes == 123


def test_one_ping_at_a_time_is_enough() -> None:
    bench = Bench()
    for _ in range(10):
        bench.link.ping()
    assert "1 frames" in repr(bench.link)


@pytest.mark.parametrize(("age", "drops"), [(9.9, 0), (10.0, 1)])
def test_a_silent_link_is_dropped(age: float, drops: int) -> None:
    bench = Bench()
    bench.clock.now += 5.0
    bench.link.heard()
    bench.clock.now += age
    bench.link.check(bench.clock.now, PATIENCE_SECONDS)
    assert bench.drops == drops


async def test_a_link_that_takes_nothing_is_dropped_although_it_is_heard() -> None:
    bench = Bench()
    bench.link.send(MESSAGE)
    bench.link.send(MESSAGE)
    for moment in range(3):
        bench.clock.now += 4.0
        bench.link.heard()
        bench.link.check(bench.clock.now, PATIENCE_SECONDS)
        assert bench.drops == (1 if moment == 2 else 0)


async def test_slow_but_steady_is_not_stuck() -> None:
    bench = Bench()
    bench.link.send(MESSAGE)
    for _ in range(5):
        bench.link.send(MESSAGE)
        bench.clock.now += 9.0
        bench.link.heard()
        bench.link.check(bench.clock.now, PATIENCE_SECONDS)
        await bench.next()
    assert bench.drops == 0


def test_an_idle_link_is_not_stuck() -> None:
    bench = Bench()
    bench.clock.now += 100.0
    bench.link.heard()
    bench.link.send(MESSAGE)
    bench.link.check(bench.clock.now, PATIENCE_SECONDS)
    assert bench.drops == 0


async def test_messages_that_went_out_or_came_in_are_counted_and_others_are_not() -> None:
    bench = Bench()
    bench.link.send(MESSAGE)
    bench.link.send_frame(b"12345")
    bench.link.ping()
    assert bench.traffic.sent_bytes == 0
    for _ in range(3):
        await bench.next()
    bench.link.heard(7)
    bench.link.heard()
    assert (bench.traffic.sent_bytes, bench.traffic.received_bytes) == (45, 7)


async def test_the_round_trip_of_a_ping_begins_when_it_leaves_and_ends_with_its_own_pong() -> None:
    bench = Bench()
    first = await ping(bench, waits_seconds=50.0)
    bench.clock.now += 2.0
    bench.link.ponged(first)
    bench.link.ponged(first)
    bench.link.ponged(b"unasked")
    counted = bench.traffic.statistics().round_trip
    assert (sum(counted.counts), counted.total) == (1, 2.0)


async def test_a_pong_that_comes_after_the_next_ping_is_not_taken_for_that_ones() -> None:
    bench = Bench()
    first = await ping(bench)
    second = await ping(bench)
    bench.link.ponged(first)
    assert sum(bench.traffic.statistics().round_trip.counts) == 0
    bench.clock.now += 3.0
    bench.link.ponged(second)
    assert bench.traffic.statistics().round_trip.total == 3.0


async def ping(bench: Bench, *, waits_seconds: float = 0.0) -> bytes:
    """A ping leaves after it waited; what its pong must say."""
    bench.link.ping()
    bench.clock.now += waits_seconds
    bench.link.ping_leaves()
    return (await bench.next()).data
