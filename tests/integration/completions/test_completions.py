"""`/v1/completions` over real sockets: statuses before anything is sent, streams, choices, and who leaves early."""

import asyncio
import json
from typing import Any

import pytest

from balancer.completions_prompts import pack
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason
from shared.messages_from_agent import Refused
from shared.messages_to_agent import Generate
from tests.support.compat_service import COMPLETIONS, TOKENS, compat_service, events_of, json_of
from tests.support.raw_http import RawConnection
from tests.support.scripted_agent import ScriptedAgent


async def speak(agent: ScriptedAgent, work: Generate) -> None:
    """Says which choice it is, by its seed, in two tokens."""
    await agent.serve(work, "seed ", str(work.seed % 1000))


async def refuse(agent: ScriptedAgent, work: Generate) -> None:
    await agent.say(
        Refused(
            member=work.member,
            attempt=work.attempt,
            kind=FailureKind.GRAMMAR_INITIALIZATION,
            message="the regex is empty at 3",
            parameter="grammar",
        )
    )


async def fail_half_way(agent: ScriptedAgent, work: Generate) -> None:
    await agent.accept(work)
    await agent.token(work, "A")
    await agent.fail(work, Failure(FailureKind.ENGINE_FAILED, "the engine stopped"))


async def test_token_ids_reach_the_agent_as_given_and_the_answer_has_one_id() -> None:
    async with compat_service(speak) as service:
        answer = await service.ask(COMPLETIONS, {**TOKENS, "max_tokens": 5, "seed": 7, "rid": "my.id"})
        work = await service.agent.wait_work()
    found = json_of(answer)
    assert (answer.status, found["id"], answer.head.headers["x-request-id"]) == (200, "my.id", "my.id")
    assert found["choices"][0]["text"] == "seed 7"
    assert (work.prompt_token_ids, work.raw_prompt, work.max_tokens) == (pack([5, 6, 7]), None, 5)
    assert work.sampling is not None
    assert work.sampling.temperature == 1.0


async def test_choices_of_a_batch_come_in_order_and_the_stream_says_the_same() -> None:
    async with compat_service(speak, slots=2) as service:
        body = {**TOKENS, "prompt": [[5], [6]], "n": 3, "seed": 7}
        whole = json_of(await service.ask(COMPLETIONS, body))
        stream = events_of(
            await service.ask(COMPLETIONS, {**body, "stream": True, "stream_options": {"include_usage": True}})
        )
    assert [choice["index"] for choice in whole["choices"]] == list(range(6))
    texts = [choice["text"] for choice in whole["choices"]]
    assert texts[:3] == texts[3:]
    assert len(set(texts)) == 3
    *chunks, (_, usage), (_, done) = stream
    assert done == "[DONE]"
    assert (usage["choices"], usage["usage"]) == ([], whole["usage"])
    assert len({chunk["id"] for _, chunk in chunks}) == 1
    joined = [""] * 6
    for _, chunk in chunks:
        (choice,) = chunk["choices"]
        joined[choice["index"]] += choice["text"]
        assert chunk["usage"] is None
    assert joined == texts


async def test_a_refusal_of_the_agent_is_a_real_status_that_blames_the_clients_field() -> None:
    async with compat_service(refuse) as service:
        for stream in (False, True):
            answer = await service.ask(COMPLETIONS, {**TOKENS, "regex": "a|*", "stream": stream, "n": 3})
            assert answer.status == 400
            assert json_of(answer)["error"] == {
                "message": "the regex is empty at 3",
                "type": "invalid_request_error",
                "param": "regex",
                "code": "grammar_initialization",
            }


async def test_a_failure_in_a_stream_is_one_error_and_then_the_end() -> None:
    async with compat_service() as service, RawConnection.to(service.balancer.compat_address) as client:
        await client.post(COMPLETIONS, {**TOKENS, "stream": True})
        work = await service.agent.wait_work()
        await service.agent.accept(work)
        await service.agent.token(work, "A")
        await client.read_head()
        assert b'"text":"A"' in await client.read_chunk()
        await service.agent.fail(work, Failure(FailureKind.ENGINE_FAILED, "the engine stopped"))
        error = json.loads((await client.read_chunk()).removeprefix(b"data: "))
        assert (error["error"]["message"], error["code"]) == ("the engine stopped", 500)
        assert await client.read_chunk() == b""


async def test_a_failure_before_anything_was_sent_is_a_real_status() -> None:
    async with compat_service(fail_half_way) as service:
        whole = await service.ask(COMPLETIONS, TOKENS)
        assert (whole.status, json_of(whole)["code"]) == (500, 500)


async def test_a_full_room_and_a_time_out_are_real_statuses() -> None:
    async with compat_service(slots=1, max_buffered_requests=1, buffered_request_timeout_seconds=0.3) as service:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(service.ask(COMPLETIONS, TOKENS))
            work = await service.agent.wait_work()
            waiting = tasks.create_task(service.ask(COMPLETIONS, {**TOKENS, "stream": True}))
            while service.balancer.switchboard.requests_buffered < 1:
                await asyncio.sleep(0.01)
            full = await service.ask(COMPLETIONS, {**TOKENS, "stream": True})
            late = await waiting
            await service.agent.serve(work, "x")
        assert (await running).status == 200
    assert (full.status, json_of(full)["error"]["code"]) == (503, "buffer_full")
    assert 1 <= int(full.head.headers["retry-after"]) <= 30
    assert (late.status, json_of(late)["error"]["code"]) == (504, "waited_too_long")


async def test_a_client_that_leaves_cancels_every_choice() -> None:
    async with compat_service(slots=3) as service:
        async with RawConnection.to(service.balancer.compat_address) as client:
            await client.post(COMPLETIONS, {**TOKENS, "n": 3, "stream": True})
            members = {(await service.agent.wait_work()).member for _ in range(3)}
        cancelled = {(await service.agent.wait_cancel()).member for _ in range(3)}
        assert cancelled == members


async def test_an_id_is_unique_while_it_runs() -> None:
    async with compat_service(slots=2) as service, asyncio.TaskGroup() as tasks:
        body = {**TOKENS, "rid": "one"}
        first = tasks.create_task(service.ask(COMPLETIONS, body))
        work = await service.agent.wait_work()
        second = await service.ask(COMPLETIONS, body)
        assert (second.status, json_of(second)["error"]["param"]) == (400, "rid")
        await service.agent.serve(work, "x")
        assert (await first).status == 200
        third = tasks.create_task(service.ask(COMPLETIONS, body))
        await service.agent.serve(await service.agent.wait_work(), "y")
        assert (await third).status == 200


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({**TOKENS, "model": "None"}, 404, "model"),
        ({**TOKENS, "model": "tiny:adapter"}, 404, "model"),
        ({**TOKENS, "lora_path": "poet"}, 400, "lora_path"),
        ({**TOKENS, "prompt": "Once"}, 400, "prompt"),
        ({**TOKENS, "nobody": 1}, 400, "nobody"),
        ({**TOKENS, "max_tokens": 0, "echo": True}, 400, "max_tokens"),
        (b"{", 400, None),
        (b'{"model":"tiny","model":"x","prompt":[1]}', 400, None),
        (b"", 400, None),
        (b"[" * 100_000, 400, None),
        (b"\xff", 400, None),
        (b"x" * 20_000, 413, None),
    ],
)
async def test_bodies_that_will_not_do(body: Any, status: int, param: str | None) -> None:
    async with compat_service(speak, max_request_bytes=150_000 if status != 413 else 10_000) as service:
        answer = await service.ask(COMPLETIONS, body)
        assert answer.status == status
        assert json_of(answer)["error"]["param"] == param
        assert json_of(answer)["code"] == status
        assert (await service.ask(COMPLETIONS, TOKENS)).status == 200


async def test_texts_where_the_operator_lets_them_in_and_fewer_choices() -> None:
    async with compat_service(speak, completions_text_prompts=True, max_choices_per_request=2) as service:
        assert (await service.ask(COMPLETIONS, {**TOKENS, "prompt": ["a", "b"]})).status == 200
        works = [await service.agent.wait_work() for _ in range(2)]
        assert {work.raw_prompt for work in works} == {"a", "b"}
        assert (await service.ask(COMPLETIONS, {**TOKENS, "n": 3})).status == 400


async def test_headers_go_out_with_the_agents_word_and_tokens_at_once() -> None:
    async with compat_service() as service, RawConnection.to(service.balancer.compat_address) as client:
        await client.post(COMPLETIONS, {**TOKENS, "stream": True})
        work = await service.agent.wait_work()
        await service.agent.accept(work)
        head = await client.read_head()
        assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
        await service.agent.token(work, "A")
        assert b'"text":"A"' in await client.read_chunk()
        await service.agent.end(work, FinishReason.LENGTH)
        assert b'"finish_reason":"length"' in await client.read_chunk()
        assert await client.read_chunk() in (b"data: [DONE]\n\n", b"")


async def test_larger_priorities_are_sooner() -> None:
    async with compat_service(slots=1) as service, asyncio.TaskGroup() as tasks:
        tasks.create_task(service.ask(COMPLETIONS, TOKENS))
        running = await service.agent.wait_work()
        for waiting, (name, priority) in enumerate((("low", -100), ("first", 0), ("high", 100)), start=1):
            tasks.create_task(service.ask(COMPLETIONS, {**TOKENS, "rid": name, "priority": priority}))
            while service.balancer.switchboard.requests_buffered < waiting:
                await asyncio.sleep(0.01)
        await service.agent.serve(running, "x")
        order = []
        for _ in range(3):
            work = await service.agent.wait_work()
            order.append((work.request_id, work.priority))
            await service.agent.serve(work, "x")
        assert order == [("high", 100), ("first", 0), ("low", -100)]
