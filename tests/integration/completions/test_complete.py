"""`/v1/complete` and the service's own questions over real sockets."""

import asyncio
import json

import pytest

from shared.generation import FinishReason
from shared.messages_to_agent import Generate
from tests.support.compat_service import COMPLETE, COMPLETIONS, TEXT, compat_service, events_of, json_of
from tests.support.scripted_agent import ScriptedAgent

NEWER = {"anthropic_version": "2023-06-01"}


async def speak(agent: ScriptedAgent, work: Generate) -> None:
    await agent.accept(work)
    await agent.token(work, "A\u2028")
    await agent.token(work, "B")
    await agent.end(work, FinishReason.LENGTH)


async def test_a_whole_answer_in_both_habits() -> None:
    async with compat_service(speak) as service:
        plain = await service.ask(COMPLETE, TEXT)
        theirs = await service.ask(COMPLETE, TEXT, **NEWER)
        work = await service.agent.wait_work()
    assert (work.raw_prompt, work.parses_special, work.max_tokens) == ("Once", False, 16)
    found = json_of(plain)
    assert list(found) == ["type", "id", "completion", "model", "stop_reason"]
    assert (found["type"], found["completion"], found["model"], found["stop_reason"]) == (
        *("completion", "A\u2028B"),
        *("tiny", "length"),
    )
    assert json_of(theirs)["stop_reason"] == "max_tokens"


async def test_a_stream_in_each_habit() -> None:
    async with compat_service(speak) as service:
        body = {**TEXT, "stream": True}
        plain = events_of(await service.ask(COMPLETE, body))
        newer = events_of(await service.ask(COMPLETE, body, **NEWER))
        older = events_of(await service.ask(COMPLETE, body, anthropic_version="2023-01-01"))
    assert plain[-1] == older[-1] == (None, "[DONE]")
    assert {name for name, _ in plain + older} == {None}
    assert {name for name, _ in newer} == {"completion"}
    assert "".join(data["completion"] for _, data in plain[:-1]) == "A\u2028B"
    assert "".join(data["completion"] for _, data in newer) == "A\u2028B"
    assert older[-2][1]["completion"] == "A\u2028B"
    assert [data["stop_reason"] for _, data in newer] == [*[None] * (len(newer) - 1), "max_tokens"]
    assert (newer[-1][1]["completion"], plain[-2][1]["stop_reason"]) == ("", "length")


@pytest.mark.parametrize(
    ("body", "plain_status", "their_status"),
    [
        ({**TEXT, "model": "x"}, 404, 404),
        ({"model": "tiny", "prompt": "x"}, 422, 400),
        ({**TEXT, "max_tokens_to_sample": 0}, 400, 400),
        ({**TEXT, "nobody": 1}, 400, 400),
        (b"{", 400, 400),
    ],
)
async def test_errors_have_the_shape_that_the_caller_knows(body: object, plain_status: int, their_status: int) -> None:
    async with compat_service(speak) as service:
        plain, theirs = await service.ask(COMPLETE, body), await service.ask(COMPLETE, body, **NEWER)
        assert (plain.status, sorted(json_of(plain))) == (plain_status, ["code", "error"])
        assert (theirs.status, json_of(theirs)["type"]) == (their_status, "error")
        assert (await service.ask(COMPLETE, body, anthropic_version="1999-01-01")).status == 400
        assert (await service.ask(COMPLETE, TEXT, Content_Type="text/plain")).status == 415


async def test_a_full_room_is_529_for_those_who_know_it() -> None:
    async with compat_service(slots=1, max_buffered_requests=0) as service, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(service.ask(COMPLETE, TEXT))
        work = await service.agent.wait_work()
        theirs, plain = await service.ask(COMPLETE, TEXT, **NEWER), await service.ask(COMPLETE, TEXT)
        assert (theirs.status, json_of(theirs)["error"]["type"]) == (529, "overloaded_error")
        assert plain.status == 503
        assert theirs.head.headers["retry-after"] == plain.head.headers["retry-after"] == "1"
        await service.agent.serve(work, "x")
        assert (await running).status == 200


async def test_models_health_and_readiness() -> None:
    async with compat_service(speak) as service:
        models = json_of(await service.ask("/v1/models", method="GET"))
        assert models == {
            "object": "list",
            "data": [{"id": "tiny", "object": "model", "created": 0, "owned_by": "steersman"}],
        }
        assert (await service.ask("/health", method="GET")).text == "OK"
        ready = await service.ask("/ready", method="GET")
        assert (ready.status, json.loads(ready.body)["ready"]) == (200, True)
        await service.agent.say_status(0)
        async with asyncio.timeout(20):
            while (await service.ask("/ready", method="GET")).status != 503:
                await asyncio.sleep(0.01)


async def test_wrong_paths_and_methods() -> None:
    async with compat_service(speak) as service:
        unknown = await service.ask("/v1/nothing", method="GET")
        assert (unknown.status, unknown.body) == (404, b"")
        assert "POST /v1/completions" in unknown.head.headers["x-steersman-hint"]
        for path, allowed in ((COMPLETIONS, "POST"), (COMPLETE, "POST")):
            wrong = await service.ask(path, method="GET")
            assert (wrong.status, wrong.head.headers["allow"]) == (405, allowed)
            assert b"this path answers only POST" in wrong.body


async def test_pages_of_allowed_origins_may_read_answers_and_errors() -> None:
    origin = "https://app.example.com"
    async with compat_service(speak, inference_cors_allowed_host=[origin]) as service:
        preflight = await service.ask(
            COMPLETE,
            method="OPTIONS",
            Origin=origin,
            Access_Control_Request_Method="POST",
            Access_Control_Request_Headers="x-api-key,anthropic-version",
        )
        assert preflight.status == 200
        assert "anthropic-version" in preflight.head.headers["access-control-allow-headers"]
        for body, status in ((TEXT, 200), ({**TEXT, "stream": True}, 200), ({}, 422)):
            answer = await service.ask(COMPLETE, body, Origin=origin)
            assert (answer.status, answer.head.headers["access-control-allow-origin"]) == (status, origin)
