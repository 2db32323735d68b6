"""Requests over agents' links, through real sockets."""

import pytest

from shared.desired_state import DEFAULT_DESIRED_STATE
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason
from shared.version import software_version
from tests.support.listening_board import ListeningBoard, all_of, end_of, text_of
from tests.support.scripted_agent import ScriptedAgent, scripted_agent
from tests.support.switchboard_driver import request

STATE = DEFAULT_DESIRED_STATE.for_agents()


async def test_an_agent_joins_gets_the_state_and_answers_a_request(served: ListeningBoard) -> None:
    served.board.set_desired_state(4, STATE)
    async with scripted_agent(served.url, name="first") as agent:
        assert (agent.welcome.balancer_id, agent.welcome.heartbeat_interval_ms) == ("balancer-1", 5000)
        assert (await agent.wait_state()).revision == 4
        opened = served.board.open_group(request())
        await agent.serve(await agent.wait_work(), "Grüße ", "👋")
        events = await all_of(opened.streams[0])
        assert text_of(events) == "Grüße 👋"
        assert end_of(events).usage.content_tokens == 2
        assert end_of(events).agent_name == "first"
        (shown,) = served.board.fleet().agents
        assert (shown.name, shown.software_version) == ("first", software_version())
    await served.wait_agents(0)


async def test_a_request_from_before_any_agent_is_answered_when_one_joins(served: ListeningBoard) -> None:
    opened = served.board.open_group(request())

    async def answer(agent: ScriptedAgent, work: object) -> None:
        await agent.serve(work, "late")  # type: ignore[arg-type]

    async with scripted_agent(served.url, play=answer):
        assert text_of(await all_of(opened.streams[0])) == "late"


async def test_a_client_that_leaves_is_cancelled_on_the_agent(served: ListeningBoard) -> None:
    async with scripted_agent(served.url) as agent:
        opened = served.board.open_group(request())
        work = await agent.wait_work()
        await agent.token(work, "x")
        opened.leave()
        assert (await agent.wait_cancel()).member == work.member
        assert served.board.statistics().slots_processing == 1
        await agent.end(work, FinishReason.CANCELLED)
        await served.wait_until(lambda: served.board.statistics().slots_processing == 0)


@pytest.mark.parametrize("how", ["vanish", "close"])
async def test_when_an_agent_goes_what_delivered_nothing_runs_elsewhere_and_the_rest_fails(
    served: ListeningBoard, how: str
) -> None:
    async with scripted_agent(served.url, "one", slots=2) as first:
        half, fresh = (served.board.open_group(request(request_id=name)) for name in ("half", "fresh"))
        work = await first.wait_work()
        await first.token(work, "only half")
        await half.streams[0].wait_events()
        if how == "close":
            await first.close()
        else:
            first.vanish()
        assert end_of(await all_of(half.streams[0])).failure is not None
        async with scripted_agent(served.url, "two") as second:
            await second.serve(await second.wait_work(), "whole")
            assert text_of(await all_of(fresh.streams[0])) == "whole"


async def test_questions_are_answered_over_the_link(served: ListeningBoard) -> None:
    async with scripted_agent(served.url, "a"):
        await served.wait_agents(1)
        assert await served.board.ask_model_metadata("a") == {"general.name": "scripted"}
        assert await served.board.ask_chat_template_override("a") is None


async def test_busy_brings_a_member_back_and_the_engines_failure_is_the_requests(served: ListeningBoard) -> None:
    async with scripted_agent(served.url) as agent:
        opened = served.board.open_group(request())
        work = await agent.wait_work()
        await agent.busy(work)
        await served.wait_until(lambda: served.board.requests_buffered == 1)
        await agent.say_status(1, slots_processing=1)
        again = await agent.wait_work()
        assert (again.member, again.attempt) == (work.member, work.attempt + 1)
        await agent.fail(again, Failure(FailureKind.ENGINE_FAILED, "the engine failed"))
        ended = end_of(await all_of(opened.streams[0]))
        assert ended.failure is not None
        assert ended.failure.kind is FailureKind.ENGINE_FAILED
