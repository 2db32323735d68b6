"""Case C22: wherever a client's leaving finds its request, the slot is free within a step and the next one starts."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.native_stream import NativeStream
from tests.support.raw_http import AnswerBroken
from tests.support.running_fleet import COUNTING, RunningFleet, running_fleet
from tests.support.tiny_model import demo_model_path

LONG_PROMPT = "All work and no play makes Jack a dull boy. " * 500  # 5,500 tokens: many seconds of reading
SOON_SECONDS = 20.0  # a step takes under 0.25 s, but not on a machine that others use
FEW_TOKENS = 100  # what may be sampled between a client's leaving and the end; the limit is far beyond
LEAVES = ("close", "half_close", "reset")

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    """One slot, so that whoever comes next needs the one that was left."""
    flags = ("--heartbeat-interval", "2s", "--buffered-request-timeout", "120s")
    with running_fleet(tmp_path_factory.mktemp("fleet"), *flags) as fleet:
        fleet.add_agent(slots=1)
        fleet.serve(demo_model_path(), context_size=8192, n_batch=2048)
        yield fleet


@pytest.fixture
async def idle_fleet(fleet: RunningFleet) -> AsyncIterator[RunningFleet]:
    """Idle before and after."""
    yield fleet
    await fleet.wait_idle()


async def leave(client: NativeStream, how: str) -> None:
    """After a half-close the client still reads: there must be no end, as if it had been served."""
    getattr(client.connection, how)()
    if how == "half_close":
        try:
            rest = await client.connection.read_to_end()
        except AnswerBroken:
            return
        assert b"Done" not in rest


def content_tokens(story_line: str) -> int:
    """Of the agent's last word about a request that was cancelled."""
    found = re.search(r"finish_reason=cancelled, .*?content_tokens=(\d+)", story_line)
    assert found is not None, story_line
    return int(found[1])


@pytest.mark.parametrize("how", LEAVES)
async def test_a_client_that_leaves_while_it_is_answered_frees_the_slot(idle_fleet: RunningFleet, how: str) -> None:
    async with idle_fleet.client(COUNTING, 2000) as client:
        request_id = (await client.read_head()).headers["x-request-id"]
        await client.read_pieces(3)
        await leave(client, how)
        await idle_fleet.wait_idle(within_seconds=SOON_SECONDS)
    assert 3 <= content_tokens((await idle_fleet.story(request_id))[-1]) < FEW_TOKENS
    assert (await idle_fleet.ask("Once upon a time", 2)).usage["content_tokens"] == 2


@pytest.mark.parametrize("how", ["close", "half_close"])
async def test_a_client_that_leaves_while_it_waits_leaves_its_place(idle_fleet: RunningFleet, how: str) -> None:
    async with idle_fleet.client(f"0, {COUNTING}", 2000) as holder:
        await holder.read_pieces(1)
        async with idle_fleet.client("waiting", 5) as waiting:
            request_id = (await waiting.read_head()).headers["x-request-id"]
            await idle_fleet.wait_gauges(requests_buffered=1)
            await leave(waiting, how)
            await idle_fleet.wait_gauges(within_seconds=SOON_SECONDS, requests_buffered=0)
        await holder.read_pieces(3)  # nothing happened to it
        async with idle_fleet.client("next", 2) as following:
            await idle_fleet.wait_gauges(requests_buffered=1)
            holder.connection.close()
            assert (await following.read_all()).usage["content_tokens"] == 2
    assert not any("Dispatch" in line for line in await idle_fleet.story(request_id))


async def test_a_long_prompt_is_read_while_everything_else_goes_on_and_can_be_left(idle_fleet: RunningFleet) -> None:
    """Cases C22 (b) and C24: statuses flow, states are applied, the link holds for more than two heartbeats."""
    fleet = idle_fleet
    revision = fleet.agent()["applied_revision"]
    async with fleet.client(LONG_PROMPT, 50) as client:
        request_id = (await client.read_head()).headers["x-request-id"]
        await fleet.wait_gauges(slots_processing=1)
        began = time.monotonic()
        put = asyncio.to_thread(fleet.serve, demo_model_path(), context_size=8192, n_batch=2048, temperature=0.5)
        assert (await put)["applied_revision"] > revision, "a change of sampling waited for the prompt"
        while time.monotonic() - began < 5.0:
            agent = await asyncio.to_thread(fleet.agent)
            assert agent["link"]["last_heard_age_seconds"] < 4.0
            assert agent["slots_processing"] == 1, "the prompt was too short for this test"
            age = agent["last_step_age_seconds"]
            assert age is None or age < SOON_SECONDS
            await asyncio.sleep(0.2)
        assert not any("FirstItem" in line for line in await fleet.story(request_id))
        await leave(client, "half_close")
        await fleet.wait_idle(within_seconds=SOON_SECONDS)
    assert content_tokens((await fleet.story(request_id))[-1]) == 0
    assert (await fleet.ask("Hi", 2)).usage["content_tokens"] == 2
    assert fleet.agents[0].log.count("is up") == 1, "the link was lost on the way"


async def test_the_link_holds_while_a_model_is_loaded(idle_fleet: RunningFleet) -> None:
    """Case C24: weights are read off the loop."""
    phases = set()
    loading = asyncio.create_task(asyncio.to_thread(idle_fleet.serve, demo_model_path(), context_size=4096))
    while not loading.done():
        agent = await asyncio.to_thread(idle_fleet.agent)
        phases.add(agent["swap_phase"])
        assert agent["link"]["last_heard_age_seconds"] < 4.0
    assert (await loading)["issues"] == []
    assert phases - {None}, "no phase of the load was seen"
    assert idle_fleet.agents[0].log.count("is up") == 1
