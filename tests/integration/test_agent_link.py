"""An agent as it runs, with a scripted balancer at one end and a scripted backend at the other."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from agent import balancer_link, dialler
from agent.llama_loaded_model import EngineOutlet
from shared import wire
from shared.agent_status import IssueKind, StateApplicationStatus
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.messages_from_agent import Accepted, Busy, ChatTemplateOverride, ModelMetadata, TokenItem
from shared.messages_to_agent import Cancel, GetChatTemplateOverride, GetModelMetadata
from tests.support.agent_states import state
from tests.support.running_agent import RunningAgent
from tests.support.running_agent import running_agent as run_in_process
from tests.support.scripted_backend import expected_answer, prompt_with_answer
from tests.support.scripted_balancer import AgentConnection, ScriptedBalancer, generate
from tests.support.scripted_runtime import ScriptedRuntime

A, B = state("/a.gguf"), state("/b.gguf")
SLOTS = 3


@dataclass
class Running:
    """An agent in a task of this process, with its scripted runtime."""

    agent: RunningAgent
    runtime: ScriptedRuntime

    async def leave(self) -> None:
        await self.agent.leave()


@contextlib.asynccontextmanager
async def running_agent(
    *balancers: ScriptedBalancer, token: str | None = None, slots: int = SLOTS, **settings: Any
) -> AsyncIterator[Running]:
    runtimes: list[ScriptedRuntime] = []

    def make_runtime(outlet: EngineOutlet) -> ScriptedRuntime:
        runtimes.append(ScriptedRuntime(outlet, slots))
        return runtimes[0]

    async with run_in_process(make_runtime, *balancers, token=token, slots=slots, **settings) as agent:
        await asyncio.sleep(0)  # it makes its runtime first
        try:
            yield Running(agent, runtimes[0])
        finally:
            runtimes[0].may_load.set()
            runtimes[0].may_decode.set()
            await agent.leave()
            assert all(model.is_closed for model in runtimes[0].models), "a model leaked"


@pytest.fixture
async def balancer() -> AsyncIterator[ScriptedBalancer]:
    async with ScriptedBalancer() as one:
        yield one


@pytest.fixture
async def agent(balancer: ScriptedBalancer) -> AsyncIterator[Running]:
    async with running_agent(balancer) as one:
        yield one


@pytest.fixture(autouse=True)
def quick_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between two tries are for fleets; the tests only need them to happen."""
    monkeypatch.setattr(dialler, "SHORTEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(dialler, "OTHER_VERSION_RETRY_SECONDS", 0.1)


def text(ids: list[int]) -> str:
    return "".join(chr(33 + token) for token in ids)


PROMPT = text(prompt_with_answer(12, 40))
ANSWER = list(expected_answer(prompt_with_answer(12, 40), 40, 200))


async def serving(balancer: ScriptedBalancer, number: int = 1) -> AgentConnection:
    """A link whose agent serves model A."""
    connection = await balancer.wait_connection(number)
    await connection.set_state(1, A)
    await connection.wait_status(lambda status: status.accepting)
    return connection


async def test_an_agent_introduces_itself_and_reports_slots_once_a_model_serves(
    balancer: ScriptedBalancer, agent: Running
) -> None:
    connection = await balancer.wait_connection()
    assert connection.hello.name == "under-test"
    assert connection.hello.status.slots_total == 0
    assert connection.authorization is None
    await connection.set_state(1, A)
    status = await connection.wait_status(lambda status: status.slots_total == SLOTS)
    assert status.state_application_status is StateApplicationStatus.APPLIED
    assert (status.applied_revision, status.model_path) == (1, "/a.gguf")


async def test_the_token_is_sent_as_a_bearer(balancer: ScriptedBalancer) -> None:
    async with running_agent(balancer, token="s3cret"):
        connection = await balancer.wait_connection()
        assert connection.authorization == "Bearer s3cret"


async def test_a_request_is_accepted_then_streamed_then_ended(balancer: ScriptedBalancer, agent: Running) -> None:
    connection = await serving(balancer)
    await connection.send(generate(1, PROMPT, 20))
    end = await connection.wait_end(1)
    story = list(connection.of_member(1))
    assert isinstance(story[0], Accepted)
    assert story[0].prompt_tokens == 12
    assert story[-1] is end
    assert all(isinstance(one, TokenItem) for one in story[1:-1])
    assert connection.tokens_of(1) == ANSWER[:20]
    assert end.finish_reason is FinishReason.LENGTH
    assert (end.usage.prompt_tokens, end.usage.content_tokens) == (12, 20)
    await connection.wait_status(lambda status: status.slots_processing == 0)


async def test_many_at_once_each_get_their_own_answer_and_those_beyond_the_slots_are_busy(
    balancer: ScriptedBalancer, agent: Running
) -> None:
    """C23: nobody's text appears in another's answer."""
    connection = await serving(balancer)
    agent.runtime.may_decode.clear()
    prompts = {member: prompt_with_answer(10 + member, 30, salt=member) for member in range(1, SLOTS + 1)}
    for member, ids in prompts.items():
        await connection.send(generate(member, text(ids), 30))
    await connection.send(generate(9, PROMPT))
    await connection.wait_until(lambda: any(isinstance(one, Busy) for one in connection.of_member(9)))
    await connection.wait_status(lambda status: status.slots_processing == SLOTS)
    agent.runtime.may_decode.set()
    for member, ids in prompts.items():
        await connection.wait_end(member)
        assert connection.tokens_of(member) == list(expected_answer(ids, 30, 200))


async def test_a_refusal_names_the_reason_and_the_slot_is_free_again(
    balancer: ScriptedBalancer, agent: Running
) -> None:
    connection = await serving(balancer)
    await connection.send(generate(1, ""))
    assert (await connection.wait_refused(1)).kind is FailureKind.EMPTY_PROMPT
    await connection.send(generate(2, "!" * 200))
    refused = await connection.wait_refused(2)
    assert refused.kind is FailureKind.PROMPT_TOO_LONG
    assert refused.message.count("200") == 2
    await connection.send(generate(3, PROMPT))
    await connection.wait_end(3)


async def test_a_cancelled_member_ends_as_cancelled_and_frees_its_slot(
    balancer: ScriptedBalancer, agent: Running
) -> None:
    connection = await serving(balancer)
    agent.runtime.may_decode.clear()
    await connection.send(generate(1, PROMPT, 40))
    await connection.wait_until(lambda: bool(list(connection.of_member(1))))
    await connection.send(Cancel(member=1, attempt=0))
    await connection.send(GetChatTemplateOverride(query=1))  # answered in order: then the cancel was read too
    await connection.wait_until(lambda: ChatTemplateOverride(query=1, content=None) in connection.received)
    agent.runtime.may_decode.set()
    assert (await connection.wait_end(1)).finish_reason is FinishReason.CANCELLED
    assert len(connection.tokens_of(1)) < 40
    await connection.wait_status(lambda status: status.slots_processing == 0)


async def test_a_lost_link_frees_the_slots_and_the_agent_comes_back(balancer: ScriptedBalancer, agent: Running) -> None:
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


async def test_a_balancer_that_is_started_again_gets_its_agent_back(balancer: ScriptedBalancer, agent: Running) -> None:
    await balancer.wait_connection()
    await balancer.stop()
    await balancer.start()
    await balancer.wait_connection(2)


async def test_a_balancer_that_is_away_is_one_line_in_the_log_however_often_it_is_dialled(
    balancer: ScriptedBalancer, agent: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
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
    async with ScriptedBalancer(heartbeat_interval_ms=500) as balancer, running_agent(balancer):
        first = await balancer.wait_connection()
        await first.wait_until(lambda: first.pings >= 2)
        assert not first.is_over
        balancer.answers_pings = False
        await balancer.wait_connection(2)
        assert first.is_over


async def test_pings_and_status_flow_while_a_model_loads_and_while_the_engine_is_busy() -> None:
    """C24: nothing slow runs on the event loop."""
    async with ScriptedBalancer(heartbeat_interval_ms=500) as balancer, running_agent(balancer) as agent:
        connection = await balancer.wait_connection()
        agent.runtime.may_load.clear()
        await connection.set_state(1, A)
        await connection.wait_status(lambda status: status.swap_phase == "loading")
        seen = connection.pings
        await connection.wait_until(lambda: connection.pings >= seen + 3)
        assert connection.status.slots_total == 0
        agent.runtime.may_load.set()
        await connection.wait_status(lambda status: status.accepting)
        agent.runtime.may_decode.clear()
        await connection.send(generate(1, PROMPT, 40))
        status = await connection.wait_status(lambda status: (status.last_step_age_seconds or 0.0) > 0.1)
        assert status.slots_processing == 1
        assert not connection.is_over


async def test_a_running_request_ends_on_the_old_model_and_the_next_runs_on_the_new(
    balancer: ScriptedBalancer, agent: Running
) -> None:
    """C30."""
    connection = await serving(balancer)
    agent.runtime.may_decode.clear()
    await connection.send(generate(1, PROMPT, 30))
    await connection.wait_until(lambda: bool(list(connection.of_member(1))))
    await connection.set_state(2, B)
    await connection.wait_status(lambda status: status.swap_phase == "draining" and not status.accepting)
    await connection.send(generate(2, PROMPT))
    await connection.wait_until(lambda: any(isinstance(one, Busy) for one in connection.of_member(2)))
    agent.runtime.may_decode.set()
    await connection.wait_end(1)
    assert connection.tokens_of(1) == ANSWER[:30]
    status = await connection.wait_status(lambda status: status.applied_revision == 2)
    assert status.model_path == "/b.gguf"
    assert agent.runtime.models[0].is_closed
    await connection.send(generate(3, PROMPT, 20))
    await connection.wait_end(3)
    assert connection.tokens_of(3) == ANSWER[:20]


async def test_a_missing_file_is_an_issue_the_old_model_serves_and_a_good_state_clears_it(
    balancer: ScriptedBalancer, agent: Running
) -> None:
    agent.runtime.missing.add("/b.gguf")
    connection = await serving(balancer)
    await connection.set_state(2, B)
    status = await connection.wait_status(lambda status: bool(status.issues))
    assert [issue.kind for issue in status.issues] == [IssueKind.MODEL_FILE_DOES_NOT_EXIST]
    assert status.accepting
    assert status.applied_revision == 1
    await connection.send(generate(1, PROMPT, 20))
    await connection.wait_end(1)
    await connection.set_state(3, A)
    status = await connection.wait_status(lambda status: status.applied_revision == 3)
    assert status.issues == []
    assert len(agent.runtime.models) == 1


async def test_a_model_that_does_not_load_is_replaced_by_the_one_before(
    balancer: ScriptedBalancer, agent: Running
) -> None:
    agent.runtime.broken.add("/b.gguf")
    connection = await serving(balancer)
    await connection.set_state(2, B)
    status = await connection.wait_status(lambda status: bool(status.issues) and status.accepting)
    assert status.model_path == "/a.gguf"
    assert status.state_application_status is StateApplicationStatus.ATTEMPTED_AND_NOT_APPLIABLE


async def test_an_engine_that_crashes_fails_its_requests_and_is_started_again(
    balancer: ScriptedBalancer, agent: Running
) -> None:
    connection = await serving(balancer)
    agent.runtime.crash_next_decode = True
    await connection.send(generate(1, PROMPT))
    end = await connection.wait_end(1)
    assert end.failure is not None
    assert end.failure.kind is FailureKind.ENGINE_FAILED
    status = await connection.wait_status(lambda status: bool(status.issues))
    assert (status.accepting, status.slots_total) == (False, 0)
    await connection.wait_status(lambda status: status.accepting and not status.issues)
    await connection.send(generate(2, PROMPT, 20))
    await connection.wait_end(2)
    assert connection.tokens_of(2) == ANSWER[:20]


async def test_questions_about_the_model_are_answered(balancer: ScriptedBalancer, agent: Running) -> None:
    connection = await balancer.wait_connection()
    await connection.send(GetModelMetadata(query=1))
    await connection.send(GetChatTemplateOverride(query=2))
    await connection.wait_until(lambda: ChatTemplateOverride(query=2, content=None) in connection.received)
    assert ModelMetadata(query=1, metadata=None) in connection.received
    await connection.set_state(1, state("/a.gguf", template="{{ x }}"))
    await connection.wait_status(lambda status: status.uses_chat_template_override)
    await connection.send(GetModelMetadata(query=3))
    await connection.send(GetChatTemplateOverride(query=4))
    await connection.wait_until(lambda: ChatTemplateOverride(query=4, content="{{ x }}") in connection.received)
    metadata = {"general.name": "/a.gguf", "general.architecture": "scripted"}
    assert ModelMetadata(query=3, metadata=metadata) in connection.received


async def test_two_balancers_share_one_agent_and_do_not_meet() -> None:
    async with ScriptedBalancer(balancer_id="one") as one, ScriptedBalancer(balancer_id="two") as two:
        one.welcome = one.welcome.model_copy(update={"balancer_addresses": [two.address]})
        async with running_agent(one) as agent:
            first, second = await one.wait_connection(), await two.wait_connection()
            await first.set_state(1, A)
            await second.set_state(1, A)
            await second.wait_status(lambda status: status.accepting)
            agent.runtime.may_decode.clear()
            await first.send(generate(1, PROMPT, 20))
            await second.send(generate(1, PROMPT, 30))
            await second.wait_status(lambda status: status.slots_processing == 2)
            agent.runtime.may_decode.set()
            await first.wait_end(1)
            await second.wait_end(1)
            assert first.tokens_of(1) == ANSWER[:20]
            assert second.tokens_of(1) == ANSWER[:30]
            assert len(agent.runtime.models) == 1


async def test_another_protocol_version_is_named_on_both_sides_and_tried_again(
    balancer: ScriptedBalancer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as later_version:
        later_version.setattr(wire, "PROTOCOL_VERSION", 9)
        balancer.greeting = wire.encode_version_refusal()
    async with ScriptedBalancer(balancer_id="good") as good:
        with caplog.at_level(logging.ERROR, logger="agent"):
            async with running_agent(balancer, good):
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
    async with running_agent(balancer):
        async with asyncio.timeout(10.0):
            while "refuses this agent's token" not in caplog.text:
                await asyncio.sleep(0.01)
        balancer.status_code = None
        await balancer.wait_connection()


async def test_a_frame_that_breaks_the_protocol_ends_the_link_with_its_code(
    balancer: ScriptedBalancer, agent: Running
) -> None:
    first = await balancer.wait_connection()
    await first.socket.send_bytes(b"\xff\0\0\0\0")
    await first.wait_over()
    assert first.close_code == 1002
    await balancer.wait_connection(2)


async def test_a_link_that_takes_no_bytes_is_dropped_and_its_members_cancelled() -> None:
    """The balancer stops reading: its socket fills, and two heartbeats later the agent gives up on it."""
    async with ScriptedBalancer(heartbeat_interval_ms=500) as balancer, running_agent(balancer) as agent:
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


async def test_leaving_finishes_what_runs_takes_nothing_new_and_closes_with_1001(
    balancer: ScriptedBalancer, agent: Running
) -> None:
    connection = await serving(balancer)
    agent.runtime.may_decode.clear()
    await connection.send(generate(1, PROMPT, 30))
    await connection.wait_until(lambda: bool(list(connection.of_member(1))))
    agent.agent.stop.set()
    await connection.wait_status(lambda status: status.draining and status.slots_total == 0)
    await connection.send(generate(2, PROMPT))
    await connection.wait_until(lambda: any(isinstance(one, Busy) for one in connection.of_member(2)))
    agent.runtime.may_decode.set()
    await connection.wait_end(1)
    assert connection.tokens_of(1) == ANSWER[:30]
    await agent.leave()
    await connection.wait_over()
    assert connection.close_code == 1001


async def test_leaving_hands_back_what_does_not_finish_in_time(balancer: ScriptedBalancer) -> None:
    async with running_agent(balancer, drain_timeout_seconds=0.05) as agent:
        connection = await serving(balancer)
        agent.runtime.may_decode.clear()
        await connection.send(generate(1, PROMPT, 30))
        await connection.wait_until(lambda: bool(list(connection.of_member(1))))
        agent.agent.stop.set()
        await connection.wait_over()
        assert connection.close_code == 1001
        assert connection.end_of(1) is None, "its balancer runs it elsewhere"
        agent.runtime.may_decode.set()
        await agent.leave()


async def test_leaving_while_a_model_loads_gives_the_load_up(balancer: ScriptedBalancer, agent: Running) -> None:
    connection = await balancer.wait_connection()
    agent.runtime.may_load.clear()
    await connection.set_state(1, A)
    await connection.wait_status(lambda status: status.swap_phase == "loading")
    await agent.leave()
    assert agent.runtime.models == []


async def test_leaving_without_any_balancer_is_quick() -> None:
    async with ScriptedBalancer() as gone:
        pass
    async with running_agent(gone) as agent:
        await agent.leave()


async def test_too_many_slots_are_one_issue_and_the_agent_stays(balancer: ScriptedBalancer) -> None:
    async with running_agent(balancer, slots=256) as agent:
        connection = await balancer.wait_connection()
        await connection.set_state(1, A)
        status = await connection.wait_status(lambda status: bool(status.issues))
        assert [issue.kind for issue in status.issues] == [IssueKind.SLOT_CANNOT_START]
        assert (status.desired_slots_total, status.slots_total) == (256, 0)
        assert agent.runtime.models == []
