"""A client's raw prompt through the whole balancer to a scripted agent and back, by our own start-up path."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from balancer.app import Balancer
from shared.failures import Failure, FailureKind
from shared.messages_from_agent import Refused
from shared.messages_to_agent import Generate
from shared.settings_sources import Address
from tests.support.conditions import wait_until
from tests.support.raw_http import Answer, AnswerBroken, RawConnection, documents
from tests.support.running_balancer import BalancerProcess, running_balancer
from tests.support.scripted_agent import ScriptedAgent, scripted_agent

PATH = "/api/v1/continue_from_raw_prompt"
LEAVES = ["close", "reset", "half_close"]


def body(prompt: str = "2+2=", max_tokens: int = 16) -> dict[str, Any]:
    return {"raw_prompt": prompt, "max_tokens": max_tokens}


def url(address: Address) -> str:
    return f"http://{address}"


@asynccontextmanager
async def client_of(balancer: Balancer, prompt: str = "2+2=") -> AsyncIterator[RawConnection]:
    """A client that has sent its request."""
    async with RawConnection.to(balancer.inference_address) as client:
        await client.post(PATH, body(prompt))
        yield client


def texts_of(answer: Answer) -> list[str]:
    """The visible pieces of an answer that ends with `Done`."""
    variants = [line["Response"]["response"]["GeneratedToken"] for line in documents(answer.body)]
    assert "Done" in variants[-1]
    return [variant["ContentToken"] for variant in variants[:-1]]


def error_of(answer: Answer) -> tuple[int, str]:
    error = documents(answer.body)[-1]["Error"]["error"]
    return error["code"], error["description"]


async def wait_slots_free(balancer: Balancer) -> None:
    await wait_until(lambda: balancer.switchboard.statistics().slots_processing == 0)


async def test_tokens_of_an_agent_reach_the_client_with_its_name_and_usage() -> None:
    async with (
        running_balancer() as balancer,
        scripted_agent(url(balancer.management_address), name="agent-a") as agent,
    ):
        async with client_of(balancer) as client:
            work = await agent.wait_work()
            assert (work.raw_prompt, work.max_tokens) == ("2+2=", 16)
            await agent.serve(work, "4", "", ".")
            answer = await client.read_answer()
    assert texts_of(answer) == ["4", "."]
    lines = documents(answer.body)
    assert {line["Response"]["generated_by"] for line in lines} == {"agent-a"}
    assert {line["Response"]["request_id"] for line in lines} == {answer.head.headers["x-request-id"]}
    assert work.request_id == answer.head.headers["x-request-id"]
    done = lines[-1]["Response"]["response"]["GeneratedToken"]["Done"]
    assert (done["usage"]["prompt_tokens"], done["usage"]["content_tokens"]) == (5, 3)
    assert done["finish_reason"] == "stop"


async def test_each_token_arrives_before_the_next_one_is_made() -> None:
    async with running_balancer() as balancer, scripted_agent(url(balancer.management_address)) as agent:
        async with client_of(balancer) as client:
            work = await agent.wait_work()
            await client.read_head()
            await agent.accept(work)
            for text in ("a", "b", "c"):
                await agent.token(work, text)
                assert json.loads(await client.read_chunk())["Response"]["response"] == {
                    "GeneratedToken": {"ContentToken": text}
                }


async def test_a_request_from_before_any_agent_is_answered_when_one_joins() -> None:
    async with running_balancer() as balancer, client_of(balancer) as client:
        await wait_until(lambda: balancer.switchboard.statistics().requests_buffered == 1)
        async with scripted_agent(url(balancer.management_address)) as agent:
            await agent.serve(await agent.wait_work(), "late")
            assert texts_of(await client.read_answer()) == ["late"]


async def test_one_slot_serves_in_the_order_of_arrival_and_needs_no_room_for_it() -> None:
    async def echo(agent: ScriptedAgent, work: Generate) -> None:
        assert work.raw_prompt is not None
        await agent.serve(work, work.raw_prompt)

    async with running_balancer(max_buffered_requests=0) as balancer:
        async with scripted_agent(url(balancer.management_address), play=echo):
            async with client_of(balancer, "no room") as client:
                assert texts_of(await client.read_answer()) == ["no room"]
    async with running_balancer() as balancer, scripted_agent(url(balancer.management_address)) as agent:
        async with client_of(balancer, "1") as first:
            works = [await agent.wait_work()]
            async with client_of(balancer, "2") as second:
                await wait_until(lambda: balancer.switchboard.statistics().requests_buffered == 1)
                async with client_of(balancer, "3") as third:
                    await wait_until(lambda: balancer.switchboard.statistics().requests_buffered == 2)
                    for client in (first, second, third):
                        await agent.serve(works[-1], "x")
                        assert texts_of(await client.read_answer()) == ["x"]
                        if client is not third:
                            works.append(await agent.wait_work())
    assert [work.raw_prompt for work in works] == ["1", "2", "3"]


# Leaving (case C22)


@pytest.mark.parametrize("how", LEAVES)
@pytest.mark.parametrize("tokens_before", [0, 3])
async def test_a_client_that_leaves_stops_its_agent_and_frees_the_slot(how: str, tokens_before: int) -> None:
    async with running_balancer() as balancer, scripted_agent(url(balancer.management_address)) as agent:
        async with client_of(balancer) as client:
            work = await agent.wait_work()
            await client.read_head()
            await agent.accept(work)
            for _ in range(tokens_before):
                await agent.token(work, "x")
                await client.read_chunk()
            getattr(client, how)()
            cancel = await agent.wait_cancel()
            assert (cancel.member, cancel.attempt) == (work.member, work.attempt)
            # Until the agent says so, it still works on it, so the slot is taken.
            assert balancer.switchboard.statistics().slots_processing == 1
            await agent.end(work)
            await wait_slots_free(balancer)
        async with client_of(balancer, "next") as following:
            await agent.serve(await agent.wait_work(), "next")
            assert texts_of(await following.read_answer()) == ["next"]


async def test_a_client_that_reads_nothing_stops_its_agent_and_delays_nobody() -> None:
    async with running_balancer(max_pending_bytes=65536) as balancer:
        async with scripted_agent(url(balancer.management_address), slots=2) as agent:
            async with RawConnection.to(balancer.inference_address, receive_buffer_bytes=4096) as slow:
                await slow.post(PATH, body("slow"))
                work = await agent.wait_work()
                cancelled = asyncio.create_task(agent.wait_cancel())
                while not cancelled.done():
                    await agent.token(work, "x" * 10_000)
                await agent.end(work)
                async with client_of(balancer, "quick") as quick:
                    await agent.serve(await agent.wait_work(), "quick")
                    assert texts_of(await quick.read_answer()) == ["quick"]
                with pytest.raises(AnswerBroken):
                    await slow.read_answer()
            await wait_slots_free(balancer)


# Failing


async def test_an_agent_lost_before_its_first_token_costs_nothing_and_after_it_the_answer() -> None:
    async with running_balancer() as balancer:
        management = url(balancer.management_address)
        async with client_of(balancer, "twice") as client:
            async with scripted_agent(management, "a") as first:
                await first.accept(await first.wait_work())
            async with scripted_agent(management, "b") as second:
                work = await second.wait_work()
                assert work.raw_prompt == "twice"
                await second.accept(work)
                await second.token(work, "x")
                await client.read_head()
                await client.read_chunk()
            last = json.loads(await client.read_chunk())
            assert last["Error"]["error"] == {"code": 502, "description": "Agent controller connection closed"}
            assert await client.read_chunk() == b""


async def test_an_agent_that_falls_silent_is_504_with_the_wires_words() -> None:
    async with running_balancer(inference_item_timeout_seconds=0.2) as balancer:
        async with scripted_agent(url(balancer.management_address)) as agent, client_of(balancer) as client:
            work = await agent.wait_work()
            code, description = error_of(await client.read_answer())
            assert code == 504
            assert description.startswith("Inference timed out after 200ms waiting for next token.")
            await agent.wait_cancel()
            await agent.end(work)
            await wait_slots_free(balancer)


@pytest.mark.parametrize(
    ("kind", "code"),
    [(FailureKind.PROMPT_TOO_LONG, 400), (FailureKind.EMPTY_PROMPT, 400), (FailureKind.ENGINE_FAILED, 500)],
)
async def test_what_the_agent_says_is_wrong_reaches_the_client(kind: FailureKind, code: int) -> None:
    async with running_balancer() as balancer:
        async with scripted_agent(url(balancer.management_address)) as agent, client_of(balancer) as client:
            work = await agent.wait_work()
            if code == 400:
                await agent.say(Refused(member=work.member, attempt=work.attempt, kind=kind, message="its words"))
            else:
                await agent.fail(work, Failure(kind, "its words"))
            assert error_of(await client.read_answer()) == (code, "its words")
            await wait_slots_free(balancer)


# Stopping


async def test_what_runs_when_it_is_told_to_stop_goes_on_and_then_agents_hear_1001() -> None:
    async with BalancerProcess.started() as process, scripted_agent(url(process.management_address)) as agent:
        async with RawConnection.to(process.inference_address) as client:
            await client.post(PATH, body())
            work = await agent.wait_work()
            await agent.accept(work)
            await agent.token(work, "before")
            await client.read_head()
            await client.read_chunk()
            process.send(signal.SIGTERM)
            await process.wait_line("stopping:")
            await agent.token(work, "after")
            assert b"after" in await client.read_chunk()
            await agent.end(work)
            assert b"Done" in await client.read_chunk()
            assert await client.read_chunk() == b""
        assert await process.wait_exit() == 0
        assert await agent.wait_over() == 1001


async def test_what_still_runs_at_the_drains_end_hears_so_and_its_agent_stops() -> None:
    async with BalancerProcess.started("--drain-timeout", "200ms") as process:
        async with scripted_agent(url(process.management_address)) as agent:
            async with RawConnection.to(process.inference_address) as client:
                await client.post(PATH, body())
                await agent.accept(await agent.wait_work())
                process.send(signal.SIGTERM)
                assert error_of(await client.read_answer()) == (503, "balancer is shutting down")
            assert await agent.wait_over() == 1001
            await agent.wait_cancel()
        assert await process.wait_exit() == 0
    assert "Traceback" not in process.log
