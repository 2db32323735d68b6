"""New states, broken models and dying engines, as the balancer sees them."""

from shared.agent_status import IssueKind, StateApplicationStatus
from shared.failures import FailureKind
from shared.messages_from_agent import Busy
from tests.support.linked_agent import ANSWER, PROMPT, A, B, LinkedAgent, linked_agent, serving
from tests.support.scripted_balancer import ScriptedBalancer, generate


async def test_a_running_request_ends_on_the_old_model_and_the_next_runs_on_the_new(
    balancer: ScriptedBalancer, agent: LinkedAgent
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
    balancer: ScriptedBalancer, agent: LinkedAgent
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
    balancer: ScriptedBalancer, agent: LinkedAgent
) -> None:
    agent.runtime.broken.add("/b.gguf")
    connection = await serving(balancer)
    await connection.set_state(2, B)
    status = await connection.wait_status(lambda status: bool(status.issues) and status.accepting)
    assert status.model_path == "/a.gguf"
    assert status.state_application_status is StateApplicationStatus.ATTEMPTED_AND_NOT_APPLIABLE


async def test_an_engine_that_crashes_fails_its_requests_and_is_started_again(
    balancer: ScriptedBalancer, agent: LinkedAgent
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


async def test_too_many_slots_are_one_issue_and_the_agent_stays(balancer: ScriptedBalancer) -> None:
    async with linked_agent(balancer, slots=256) as agent:
        connection = await balancer.wait_connection()
        await connection.set_state(1, A)
        status = await connection.wait_status(lambda status: bool(status.issues))
        assert [issue.kind for issue in status.issues] == [IssueKind.SLOT_CANNOT_START]
        assert (status.desired_slots_total, status.slots_total) == (256, 0)
        assert agent.runtime.models == []
