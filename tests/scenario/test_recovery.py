"""The fleet comes back by itself: balancers that are killed, a Redis that goes away, several balancers on one Redis.

Real processes and engines; the model is tiny and its greedy answers never end, so that what still runs is seen.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.fleet_process import FleetProcess
from tests.support.native_stream import NativeStream
from tests.support.raw_http import AnswerBroken
from tests.support.redis_server import RedisServer
from tests.support.running_fleet import STATE_PATH, RunningFleet, desired_state, running_fleet
from tests.support.tiny_model import TinyModel, tiny_model_path

pytestmark = pytest.mark.model

SLOTS: Final = 2
PATIENT: Final = ("--buffered-request-timeout", "60s")
ONE_THREAD: Final = ("--threads", "1")
ENDLESS: Final = 60_000  # tokens: minutes on any machine
CONTEXT: Final = 65_536


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_path(tmp_path_factory.mktemp("model"), TinyModel(seed=3, context_tokens=CONTEXT))


@pytest.fixture(params=["file", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/state.json"
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.unix_url


def start_balancer(folder: Path, name: str, place: str, *flags: str) -> FleetProcess:
    return FleetProcess(folder / f"{name}.log", "balancer", "--state-database", place, *PATIENT, *flags)


def start_again(fleet: RunningFleet, place: str) -> None:
    """The balancer at its old addresses; nothing else is done."""
    addresses = ("--inference-addr", str(fleet.inference), "--management-addr", str(fleet.management))
    anywhere = ("--compat-addr", "127.0.0.1:0")
    fleet.balancer = start_balancer(fleet.folder, "balancer-again", place, *addresses, *anywhere)
    assert fleet.balancer.address_of("inference") == fleet.inference


def kill(process: FleetProcess) -> None:
    process.send(signal.SIGKILL)
    assert process.wait_exit() == -signal.SIGKILL


@asynccontextmanager
async def endless(fleet: RunningFleet, count: int) -> AsyncIterator[list[NativeStream]]:
    """So many streams, of which each has begun and none ends by itself."""
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(fleet.client(f"story {one}", ENDLESS)) for one in range(count)]
        for stream in streams:
            await stream.read_pieces(1)
        yield streams


async def wait_no_slot_in_use(fleet: RunningFleet) -> None:
    """By the agents' own count, over all balancers: what they say when they have stopped working."""
    await asyncio.to_thread(fleet.wait_agents, lambda agent: agent["slots_processing_for_all_balancers"] == 0)


async def short_answers(fleet: RunningFleet, count: int) -> set[str | None]:
    """Ask all at once; each must be complete. Who answered."""
    answers = await asyncio.gather(*(fleet.ask(f"number {one}", max_tokens=5) for one in range(count)))
    assert [answer.usage["content_tokens"] for answer in answers] == [5] * count
    return {name for answer in answers for name in answer.generated_by}


# A balancer that is killed


async def test_a_killed_balancer_started_again_has_its_fleet_back_and_serves(
    place: str, model: Path, tmp_path: Path
) -> None:
    with running_fleet(tmp_path, "--state-database", place, *PATIENT) as fleet:
        for _ in range(2):
            fleet.add_agent(*ONE_THREAD, slots=SLOTS)
        fleet.serve(model, context_size=CONTEXT)
        state, before = fleet.get(STATE_PATH), fleet.fleet()
        async with endless(fleet, 2 * SLOTS) as streams, fleet.client("it waits", 1) as waiting:
            await waiting.read_head()
            await fleet.wait_gauges(requests_buffered=1)
            kill(fleet.balancer)
            for client in (*streams, waiting):
                with pytest.raises(AnswerBroken):
                    await client.read_all()
        start_again(fleet, place)
        # At once, before any agent is back: whoever asks waits for them.
        assert await short_answers(fleet, 4 * SLOTS) <= {"agent-0", "agent-1"}
        await wait_no_slot_in_use(fleet)
        async with endless(fleet, 2 * SLOTS):  # every slot is there again
            assert fleet.gauges()["slots_processing"] == 2 * SLOTS
        await fleet.wait_idle()
        after = fleet.fleet()
        assert fleet.get(STATE_PATH) == state
        assert after["wanted_revision"] == before["wanted_revision"]
        for was, now in zip(before["agents"], after["agents"], strict=True):
            for key in ("id", "applied_revision", "state_application_status", "slots_total"):
                assert now[key] == was[key]
        assert [agent.exit_status for agent in fleet.agents] == [None, None]


async def test_agents_of_a_killed_balancer_stop_working_for_it_though_it_never_comes_back(
    redis_server: RedisServer, model: Path, tmp_path: Path
) -> None:
    async with two_balancers(redis_server, tmp_path) as (killed, other):
        killed.serve(model, context_size=CONTEXT)
        async with endless(killed, 1), endless(other, 1) as (stream,):
            await asyncio.to_thread(
                other.wait_agents, lambda agent: agent["slots_processing_for_all_balancers"] == SLOTS
            )
            kill(killed.balancer)
            await asyncio.to_thread(other.wait_agents, lambda agent: agent["slots_processing_for_all_balancers"] == 1)
            await stream.read_pieces(100)  # the other one's goes on
            assert await short_answers(other, SLOTS) == {"agent-0"}
        await wait_no_slot_in_use(other)


# A Redis that goes away


async def test_a_fleet_started_without_its_redis_serves_who_waited_as_soon_as_it_comes(
    redis_server: RedisServer, model: Path, tmp_path: Path
) -> None:
    with running_fleet(tmp_path, "--state-database", redis_server.url, *PATIENT) as fleet:
        fleet.add_agent(*ONE_THREAD, slots=SLOTS)
        fleet.serve(model, context_size=CONTEXT)
    await redis_server.stop()
    with running_fleet(tmp_path, "--state-database", redis_server.url, *PATIENT) as fleet:
        fleet.add_agent(*ONE_THREAD, slots=SLOTS)
        await asyncio.to_thread(fleet.wait_agents, lambda agent: agent["state_application_status"] == "Fresh")
        async with fleet.client("it waits for the state", 5) as waiting:
            await waiting.read_head()
            await fleet.wait_gauges(requests_buffered=1)
            status, _, _ = fleet.request("PUT", STATE_PATH, desired_state(model))
            assert status == 503
            assert "waiting for the desired state: the state database at redis://127.0.0.1" in fleet.balancer.log
            status, _, body = fleet.request("GET", "/ready")
            assert (status, b"the state database has not answered yet" in body) == (503, True)
            await redis_server.start()
            assert (await waiting.read_all()).usage["content_tokens"] == 5


async def test_without_redis_tokens_go_on_and_a_put_changes_nothing_until_it_is_back(
    redis_server: RedisServer, model: Path, tmp_path: Path
) -> None:
    with running_fleet(tmp_path, "--state-database", redis_server.url, *PATIENT) as fleet:
        fleet.add_agent(*ONE_THREAD, slots=SLOTS)
        served = fleet.serve(model, context_size=CONTEXT)
        state = fleet.get(STATE_PATH)
        hotter = desired_state(model, context_size=CONTEXT, temperature=1.0)
        async with endless(fleet, 1) as (stream,):
            await redis_server.kill()
            assert fleet.request("PUT", STATE_PATH, hotter)[0] == 503
            await stream.read_pieces(60)
            assert await short_answers(fleet, 2 * SLOTS) == {"agent-0"}
            assert fleet.get(STATE_PATH) == state
            await redis_server.start()
            await stream.read_pieces(60)
            assert fleet.get(STATE_PATH) == state
            assert fleet.agent()["applied_revision"] == served["applied_revision"]
            await put_when_it_is_taken(fleet, hotter)
            await asyncio.to_thread(
                fleet.wait_agents, lambda agent: agent["applied_revision"] > served["applied_revision"]
            )
            await stream.read_pieces(60)  # other sampling parameters do not exchange the model
        assert fleet.get(STATE_PATH) == hotter
        await fleet.wait_idle()


async def put_when_it_is_taken(fleet: RunningFleet, document: object) -> None:
    """A PUT that comes while the balancer still connects may be refused."""
    async with asyncio.timeout(20):
        while (await asyncio.to_thread(fleet.request, "PUT", STATE_PATH, document))[0] != 204:
            await asyncio.sleep(0.05)


# Several balancers


@asynccontextmanager
async def two_balancers(redis_server: RedisServer, folder: Path) -> AsyncIterator[tuple[RunningFleet, RunningFleet]]:
    """Two on one Redis, and one agent that was told of both; the second's view has the same agent."""
    place = redis_server.unix_url
    with running_fleet(folder, "--state-database", place, *PATIENT) as first:
        free = ("--inference-addr", "127.0.0.1:0", "--management-addr", "127.0.0.1:0", "--compat-addr", "127.0.0.1:0")
        drain = ("--drain-timeout", "200ms")
        second = RunningFleet(folder, start_balancer(folder, "second-balancer", place, *free, *drain))
        try:
            agent = first.add_agent(*ONE_THREAD, "--management-addr", str(second.management), slots=SLOTS)
            second.agents.append(agent)
            yield first, second
        finally:
            second.end()


async def test_balancers_on_one_redis_see_one_state_and_share_an_agents_slots(
    redis_server: RedisServer, model: Path, tmp_path: Path
) -> None:
    async with two_balancers(redis_server, tmp_path) as (first, second):
        first.serve(model, context_size=CONTEXT)
        revision = first.fleet()["wanted_revision"]
        second.wait_agents(lambda agent: agent["applied_revision"] == revision and agent["accepting"])
        assert second.get(STATE_PATH) == first.get(STATE_PATH)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(asyncio.to_thread(most_slots_in_use, first, second, rounds=40))
            answers = [tasks.create_task(short_answers_until(watching, fleet, 20)) for fleet in (first, second)]
        assert [answer.result() for answer in answers] == [{"agent-0"}, {"agent-0"}]
        assert 1 <= watching.result() <= SLOTS
        for fleet in (first, second):
            await fleet.wait_idle()
        # A change by one is a change for both.
        revision = second.put(desired_state(model, context_size=CONTEXT, temperature=0.5))
        for fleet in (first, second):
            await asyncio.to_thread(fleet.wait_agents, lambda agent: agent["applied_revision"] == revision)
        assert first.get(STATE_PATH) == second.get(STATE_PATH)


async def short_answers_until(watching: asyncio.Task[int], fleet: RunningFleet, count: int) -> set[str | None]:
    """Again and again, so that whoever watches has something to see."""
    names = await short_answers(fleet, count)
    while not watching.done():
        names |= await short_answers(fleet, count)
    return names


def most_slots_in_use(*fleets: RunningFleet, rounds: int) -> int:
    """The agent's own count, looked at often."""
    most = 0
    for _ in range(rounds):
        for fleet in fleets:
            most = max(most, fleet.agent()["slots_processing_for_all_balancers"])
        time.sleep(0.02)
    return most
