"""SIGTERM: what runs is finished or handed back, and the link closes with 1001."""

from shared.messages_from_agent import Busy
from tests.support.linked_agent import ANSWER, PROMPT, A, LinkedAgent, linked_agent, serving
from tests.support.scripted_balancer import ScriptedBalancer, generate


async def test_leaving_finishes_what_runs_takes_nothing_new_and_closes_with_1001(
    balancer: ScriptedBalancer, agent: LinkedAgent
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
    async with linked_agent(balancer, drain_timeout_seconds=0.05) as agent:
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


async def test_leaving_while_a_model_loads_gives_the_load_up(balancer: ScriptedBalancer, agent: LinkedAgent) -> None:
    connection = await balancer.wait_connection()
    agent.runtime.may_load.clear()
    await connection.set_state(1, A)
    await connection.wait_status(lambda status: status.swap_phase == "loading")
    await agent.leave()
    assert agent.runtime.models == []


async def test_leaving_without_any_balancer_is_quick() -> None:
    async with ScriptedBalancer() as gone:
        pass
    async with linked_agent(gone) as agent:
        await agent.leave()
