"""Agents that end, in order or not: nobody hears of it who need not."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from tests.support.fleet_process import FleetProcess
from tests.support.running_fleet import COUNTING, RunningFleet, desired_state, running_fleet
from tests.support.tiny_model import demo_model_path

LONG_PROMPT = "All work and no play makes Jack a dull boy. " * 30  # 330 tokens: a second of reading and more

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet"), "--buffered-request-timeout", "120s") as fleet:
        fleet.put(desired_state(demo_model_path(), context_size=4096))
        yield fleet


@pytest.fixture
def victim(fleet: RunningFleet) -> FleetProcess:
    """The only agent: two slots, idle."""
    running = [agent for agent in fleet.agents if agent.exit_status is None]
    agent = running[0] if running else fleet.add_agent(slots=2, name="first")
    fleet.wait_agents(lambda agent: bool(agent["accepting"]))
    return agent


async def test_an_agent_that_is_told_to_end_finishes_its_answers_and_the_next_runs_elsewhere(
    fleet: RunningFleet, victim: FleetProcess
) -> None:
    async with fleet.client(COUNTING, 150) as running:
        await running.read_pieces(1)
        victim.send(signal.SIGTERM)
        await asyncio.to_thread(fleet.wait_agents, lambda agent: bool(agent["draining"]))
        async with fleet.client("5, 6,", 4) as waiting:
            await fleet.wait_gauges(requests_buffered=1)
            fleet.add_agent(slots=2, name="second")  # it starts while the first one's answer is made
            answer = await running.read_all()
            assert (answer.usage["content_tokens"], answer.finish_reason) == (150, "length")
            assert await asyncio.to_thread(victim.wait_exit) == 0
            assert (await waiting.read_all()).generated_by == {"second"}
    await fleet.wait_idle()


async def test_of_a_killed_agents_requests_those_without_a_token_run_elsewhere_and_the_others_are_502(
    fleet: RunningFleet, victim: FleetProcess
) -> None:
    async with fleet.client(COUNTING, 2000) as running:
        await running.read_pieces(2)
        async with fleet.client(LONG_PROMPT, 4) as reading:
            request_id = (await reading.read_head()).headers["x-request-id"]
            await fleet.wait_gauges(slots_processing=2)
            victim.send(signal.SIGKILL)
            answer = await running.read_all()
            assert answer.error is not None
            assert answer.error[0] == 502
            assert answer.pieces, "what was delivered stays"
            await fleet.wait_gauges(slots_processing=0, requests_buffered=1)
            assert not any("FirstItem" in line for line in await fleet.story(request_id)), "it had got something"
            assert await asyncio.to_thread(victim.wait_exit) == -signal.SIGKILL
            fleet.add_agent(slots=1, name="third")
            answer = await reading.read_all()
    assert (answer.usage["content_tokens"], answer.generated_by) == (4, {"third"})
    await fleet.wait_idle()
