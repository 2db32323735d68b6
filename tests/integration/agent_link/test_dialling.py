"""Links that break, are refused, or speak another version: the agent comes back, and says why in one line."""

import asyncio
import logging
from typing import Any

import pytest

from agent import balancer_link
from shared import wire
from tests.support.linked_agent import ANSWER, PROMPT, A, LinkedAgent, linked_agent, serving
from tests.support.scripted_balancer import ScriptedBalancer, generate


async def test_the_token_is_sent_as_a_bearer(balancer: ScriptedBalancer) -> None:
    async with linked_agent(balancer, token="s3cret"):
        connection = await balancer.wait_connection()
        assert connection.authorization == "Bearer s3cret"


async def test_a_lost_link_frees_the_slots_and_the_agent_comes_back(
    balancer: ScriptedBalancer, agent: LinkedAgent
) -> None:
    first = await serving(balancer)
    agent.runtime.may_decode.clear()
    await first.send(generate(1, PROMPT, 40))
    await first.wait_until(lambda: bool(list(first.of_member(1))))
    await first.socket.close(code=1011)
    second = await balancer.wait_connection(2)
    assert second.hello.agent_id == first.hello.agent_id
    agent.runtime.may_decode.set()
    status = await second.wait_status(lambda status: status.slots_processing == 0)
    assert status.applied_revision == 1
    await second.set_state(1, A)
    await second.send(generate(1, PROMPT, 20))  # the same numbers, from another link
    await second.wait_end(1)
    assert second.tokens_of(1) == ANSWER[:20]
    assert len(agent.runtime.models) == 1, "the state was known already"


async def test_a_balancer_that_is_started_again_gets_its_agent_back(
    balancer: ScriptedBalancer, agent: LinkedAgent
) -> None:
    await balancer.wait_connection()
    await balancer.stop()
    await balancer.start()
    await balancer.wait_connection(2)


async def test_a_lost_link_leaves_no_cancellation_behind(balancer: ScriptedBalancer, agent: LinkedAgent) -> None:
    """With one, asyncio.timeout of Python 3.11.2 (Debian 12) ends the task that dials: the agent never comes back."""
    first = await balancer.wait_connection()
    await first.socket.close(code=1011)
    await balancer.wait_connection(2)
    (dialler,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("balancer ")]
    assert dialler.cancelling() == 0


async def test_a_balancer_that_is_away_is_one_line_in_the_log_however_often_it_is_dialled(
    balancer: ScriptedBalancer, agent: LinkedAgent, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await balancer.wait_connection()
    dials = 0
    open_connection = balancer_link.open_connection

    async def counted(*arguments: Any) -> Any:
        nonlocal dials
        dials += 1
        return await open_connection(*arguments)

    monkeypatch.setattr("agent.dialler.open_connection", counted)
    await balancer.stop()
    async with asyncio.timeout(20.0):
        while dials < 3 or "cannot connect (" not in caplog.text:
            await asyncio.sleep(0.01)
    await balancer.start()
    await balancer.wait_connection(2)
    assert caplog.text.count("cannot connect (") == 1


async def test_a_balancer_that_goes_silent_is_lost_after_two_heartbeats() -> None:
    async with ScriptedBalancer(heartbeat_interval_ms=500) as balancer, linked_agent(balancer):
        first = await balancer.wait_connection()
        await first.wait_until(lambda: first.pings >= 2)
        assert not first.is_over
        balancer.answers_pings = False
        await balancer.wait_connection(2)
        assert first.is_over


async def test_another_protocol_version_is_named_on_both_sides_and_tried_again(
    balancer: ScriptedBalancer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as later_version:
        later_version.setattr(wire, "PROTOCOL_VERSION", 9)
        balancer.greeting = wire.encode_version_refusal()
    async with ScriptedBalancer(balancer_id="good") as good:
        with caplog.at_level(logging.ERROR, logger="agent"):
            async with linked_agent(balancer, good):
                connection = await good.wait_connection()
                status = await connection.wait_status(lambda status: status.peer_version_problem is not None)
                await balancer.wait_connection(2)
                balancer.greeting = None
                await connection.wait_status(lambda status: status.peer_version_problem is None)
    assert status.peer_version_problem is not None
    assert balancer.address in status.peer_version_problem
    assert "9" in status.peer_version_problem
    assert "upgrade this side" in caplog.text
    assert caplog.text.count("upgrade this side") == 1


async def test_a_refused_token_is_said_in_one_sentence(
    balancer: ScriptedBalancer, caplog: pytest.LogCaptureFixture
) -> None:
    balancer.status_code = 401
    async with linked_agent(balancer):
        async with asyncio.timeout(10.0):
            while "refuses this agent's token" not in caplog.text:
                await asyncio.sleep(0.01)
        balancer.status_code = None
        await balancer.wait_connection()


async def test_a_frame_that_breaks_the_protocol_ends_the_link_with_its_code(
    balancer: ScriptedBalancer, agent: LinkedAgent
) -> None:
    first = await balancer.wait_connection()
    await first.socket.send_bytes(b"\xff\0\0\0\0")
    await first.wait_over()
    assert first.close_code == 1002
    await balancer.wait_connection(2)


async def test_a_link_that_takes_no_bytes_is_dropped_and_its_members_cancelled() -> None:
    """The balancer stops reading: its socket fills, and two heartbeats later the agent gives up on it."""
    async with ScriptedBalancer(heartbeat_interval_ms=500) as balancer, linked_agent(balancer) as agent:
        connection = await serving(balancer)
        agent.runtime.may_decode.clear()
        await connection.send(generate(1, PROMPT, 40))
        await connection.wait_status(lambda status: status.slots_processing == 1)
        transport = connection.transport
        assert transport is not None
        transport.pause_reading()
        second = await balancer.wait_connection(2)
        agent.runtime.may_decode.set()
        await second.wait_status(lambda status: status.slots_processing == 0)
