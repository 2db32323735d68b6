"""Cases C25, C26 and C31 with a real agent: requests wait, in order, within bounds, and the gauges say so."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.native_stream import NativeStream
from tests.support.running_fleet import COUNTING, STATE_PATH, RunningFleet, desired_state, running_fleet
from tests.support.tiny_model import demo_model_path, tiny_model_path

SLOTS = 4
ROOM = 4
HOLDING_TOKENS = 3000
QUICK_SECONDS = 0.2  # once in ten tries: a busy machine may pause, a handler that waits for a slot always waits

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    """Its agent joins in the first test."""
    flags = ("--max-buffered-requests", str(ROOM), "--buffered-request-timeout", "120s")
    with running_fleet(tmp_path_factory.mktemp("fleet"), *flags) as fleet:
        fleet.put(desired_state(demo_model_path(), context_size=8192))
        yield fleet


@pytest.fixture
async def serving(fleet: RunningFleet) -> AsyncIterator[RunningFleet]:
    """Idle before and after."""
    if not fleet.agents:
        fleet.add_agent(slots=SLOTS)
    fleet.wait_agents(lambda agent: agent["accepting"])
    yield fleet
    await fleet.wait_idle()


async def hold_all_slots(fleet: RunningFleet, clients: AsyncExitStack) -> list[NativeStream]:
    """Clients that are answered for longer than the test takes."""
    holders = []
    for number in range(SLOTS):
        holder = await clients.enter_async_context(fleet.client(f"{number}, {COUNTING}", HOLDING_TOKENS))
        await holder.read_pieces(1)
        holders.append(holder)
    assert fleet.gauges() == {"slots_processing": SLOTS, "slots_total": SLOTS, "requests_buffered": 0}
    return holders


async def fill_the_room(fleet: RunningFleet, clients: AsyncExitStack) -> list[NativeStream]:
    waiting = []
    for number in range(ROOM):
        waiting.append(await clients.enter_async_context(fleet.client(f"Number {number} waits:", 3)))
        await fleet.wait_gauges(requests_buffered=number + 1)
    return waiting


async def test_a_request_from_before_any_agent_is_answered_when_one_joins(fleet: RunningFleet) -> None:
    """C25 (a), and C31 with no agent at all."""
    assert fleet.gauges() == {"slots_processing": 0, "slots_total": 0, "requests_buffered": 0}
    async with fleet.client("Hello", 3) as client:
        await fleet.wait_gauges(requests_buffered=1)
        fleet.add_agent(slots=SLOTS)
        await asyncio.to_thread(fleet.wait_agents, lambda agent: agent["accepting"])
        answer = await client.read_all()
    assert answer.usage["content_tokens"] == 3
    await fleet.wait_gauges(slots_processing=0, slots_total=SLOTS, requests_buffered=0)


async def test_more_requests_than_slots_are_all_answered(serving: RunningFleet) -> None:
    """C25 (b)."""
    answers = await asyncio.gather(*(serving.ask(f"{number} and", 8) for number in range(SLOTS + ROOM)))
    assert [answer.usage["content_tokens"] for answer in answers] == [8] * (SLOTS + ROOM)
    await serving.wait_gauges(slots_processing=0, slots_total=SLOTS, requests_buffered=0)


async def test_with_a_full_room_one_more_is_refused_and_those_that_wait_are_answered(serving: RunningFleet) -> None:
    """C25 (c)."""
    async with AsyncExitStack() as clients:
        holders = await hold_all_slots(serving, clients)
        waiting = await fill_the_room(serving, clients)
        for _ in range(2):
            refused = await serving.ask("too many", 3)
            assert refused.error == (503, "Buffered requests overflow")
        for holder in holders:
            holder.connection.close()
        answers = await asyncio.gather(*(one.read_all() for one in waiting))
        assert [answer.usage["content_tokens"] for answer in answers] == [3] * ROOM


async def test_first_come_is_first_served(serving: RunningFleet) -> None:
    """One slot gets free, and serves those that wait one after the other."""
    ended: list[int] = []

    async def wait_end(number: int, client: NativeStream) -> None:
        await client.read_all()
        ended.append(number)

    async with AsyncExitStack() as clients:
        holders = await hold_all_slots(serving, clients)
        waiting = await fill_the_room(serving, clients)
        holders[0].connection.close()
        await asyncio.gather(*(wait_end(number, client) for number, client in enumerate(waiting)))
    assert ended == [0, 1, 2, 3]


async def test_with_a_full_room_everything_that_needs_no_slot_answers_at_once(serving: RunningFleet) -> None:
    """C26, and C31: the gauges parse."""
    paths = ("/health", "/ready", "/metrics", "/api/v1/agents", "/api/v1/fleet", "/api/v1/buffered_requests")

    def seconds(method: str, path: str, expected: int, document: object = None) -> float:
        best = float("inf")
        for _ in range(10):
            began = time.monotonic()
            assert serving.request(method, path, document)[0] == expected, path
            best = min(best, time.monotonic() - began)
            if best < QUICK_SECONDS:
                break
        return best

    def ask_everything() -> dict[str, float]:
        took = {path: seconds("GET", path, 200) for path in paths}
        took["PUT"] = seconds("PUT", STATE_PATH, 204, desired_state(demo_model_path(), context_size=8192))
        return took

    async with AsyncExitStack() as clients:
        await hold_all_slots(serving, clients)
        await fill_the_room(serving, clients)
        took = await asyncio.to_thread(ask_everything)
        assert max(took.values()) < QUICK_SECONDS, took
        check_exposition(serving, {"slots_processing": SLOTS, "slots_total": SLOTS, "requests_buffered": ROOM})
        assert json.loads(serving.request("GET", "/ready")[2])["ready"]
    await serving.wait_idle()
    check_exposition(serving, {"slots_processing": 0, "slots_total": SLOTS, "requests_buffered": 0})


def check_exposition(fleet: RunningFleet, wanted: dict[str, int]) -> None:
    status, headers, body = fleet.request("GET", "/metrics")
    assert (status, headers["content-type"].split("; charset")[0]) == (200, "text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    for name, value in wanted.items():
        family = families[f"paddler_{name}"]
        assert (family.type, [sample.value for sample in family.samples]) == ("gauge", [value])


def test_without_a_room_a_free_slot_serves_and_a_taken_one_refuses(tmp_path_factory: pytest.TempPathFactory) -> None:
    """C25 (e), and (d) on the way: with no agent at all the room is full from the start."""
    folder = tmp_path_factory.mktemp("no-room")
    with running_fleet(folder, "--max-buffered-requests", "0") as fleet:

        async def with_no_agent() -> None:
            assert (await fleet.ask("x", 1)).error == (503, "Buffered requests overflow")

        async def with_one_slot() -> None:
            assert (await fleet.ask("x", 1)).error is None
            await fleet.wait_idle()
            async with fleet.client(COUNTING, HOLDING_TOKENS) as holder:
                await holder.read_pieces(1)
                assert (await fleet.ask("x", 1)).error == (503, "Buffered requests overflow")
            await fleet.wait_idle()

        asyncio.run(with_no_agent())
        fleet.add_agent(slots=1)
        fleet.serve(demo_model_path(), context_size=4096)
        asyncio.run(with_one_slot())


def test_nobody_waits_longer_than_allowed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """C25 (d): no agents at all."""
    folder = tmp_path_factory.mktemp("no-agents")
    with running_fleet(folder, "--buffered-request-timeout", "700ms") as fleet:
        fleet.put(desired_state(tiny_model_path(folder)))

        async def wait_in_vain() -> None:
            began = time.monotonic()
            answer = await fleet.ask("x", 1)
            assert answer.error is not None
            assert answer.error[0] == 504
            assert time.monotonic() - began >= 0.7
            await fleet.wait_gauges(requests_buffered=0)

        asyncio.run(wait_in_vain())
