"""Requests over the link: accepted, refused, busy, cancelled; and questions about the model."""

from shared.agent_status import StateApplicationStatus
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.messages_from_agent import Accepted, Busy, ChatTemplateOverride, ModelMetadata, TokenItem
from shared.messages_to_agent import Cancel, GetChatTemplateOverride, GetModelMetadata
from tests.support.agent_states import state
from tests.support.linked_agent import ANSWER, PROMPT, SLOTS, A, LinkedAgent, linked_agent, serving, text
from tests.support.scripted_backend import expected_answer, prompt_with_answer
from tests.support.scripted_balancer import ScriptedBalancer, generate


async def test_an_agent_introduces_itself_and_reports_slots_once_a_model_serves(
    balancer: ScriptedBalancer, agent: LinkedAgent
) -> None:
    connection = await balancer.wait_connection()
    assert connection.hello.name == "under-test"
    assert connection.hello.status.slots_total == 0
    assert connection.authorization is None
    await connection.set_state(1, A)
    status = await connection.wait_status(lambda status: status.slots_total == SLOTS)
    assert status.state_application_status is StateApplicationStatus.APPLIED
    assert (status.applied_revision, status.model_path) == (1, "/a.gguf")


async def test_a_request_is_accepted_then_streamed_then_ended(balancer: ScriptedBalancer, agent: LinkedAgent) -> None:
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
    balancer: ScriptedBalancer, agent: LinkedAgent
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
    balancer: ScriptedBalancer, agent: LinkedAgent
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
    balancer: ScriptedBalancer, agent: LinkedAgent
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


async def test_pings_and_status_flow_while_a_model_loads_and_while_the_engine_is_busy() -> None:
    """C24: nothing slow runs on the event loop."""
    async with ScriptedBalancer(heartbeat_interval_ms=500) as balancer, linked_agent(balancer) as agent:
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


async def test_questions_about_the_model_are_answered(balancer: ScriptedBalancer, agent: LinkedAgent) -> None:
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
        async with linked_agent(one) as agent:
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
