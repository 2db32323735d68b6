"""What a client reads: one line per token, failures as lines, and what needs no agent."""

import json

import pytest

from shared.failures import Failure, FailureKind
from shared.generation import FinishReason, Usage
from tests.support.inference_service import BODY, PATH, InferenceService, token, variant
from tests.support.raw_http import documents


async def test_each_token_is_a_line_and_a_chunk_of_its_own_and_done_is_the_last(service: InferenceService) -> None:
    async with service.connect() as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        head = await client.read_head()  # before anything was generated
        group.run_on("agent-a")
        received = []
        for text in ("4", ".", "\u2028\u0085x"):
            group.give(text)
            received.append(await client.read_chunk())  # each arrives before the next is made
        group.finish(FinishReason.STOP, Usage(prompt_tokens=4, cached_prompt_tokens=1, content_tokens=3))
        received += [chunk async for chunk in client.chunks()]
    assert head.status == 200
    assert head.headers["content-type"] == "application/json"
    assert head.headers["cache-control"] == "no-cache"
    assert head.headers["x-accel-buffering"] == "no"
    assert head.headers["transfer-encoding"] == "chunked"
    assert "content-encoding" not in head.headers
    request_id = head.headers["x-request-id"]
    assert len(request_id) == 21
    assert all(chunk.count(b"\n") == 1 and chunk.endswith(b"\n") for chunk in received)
    assert [len(chunk.decode().splitlines()) for chunk in received] == [1, 1, 1, 1]
    lines = [json.loads(chunk) for chunk in received]
    assert lines[:3] == [token(text)(request_id) for text in ("4", ".", "\u2028\u0085x")]
    done = variant(lines[3])["Done"]
    assert done["usage"]["prompt_tokens"] == 4
    assert done["usage"]["cached_prompt_tokens"] == 1
    assert done["usage"]["content_tokens"] == 3
    assert len(done["usage"]) == 8
    assert (done["finish_reason"], done["matched_stop"]) == ("stop", None)
    assert group.request.request_id == request_id
    assert (group.request.raw_prompt, group.request.max_tokens) == ("2+2=", 16)
    await group.wait_left()


async def test_what_came_at_once_goes_out_as_lines_of_its_own_without_empty_ones(service: InferenceService) -> None:
    async with service.connect() as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        group.run_on(None)
        for text in ("a", "", "b", "", ""):
            group.give(text)
        group.finish()
        await client.read_head()
        lines = [json.loads(chunk) async for chunk in client.chunks()]
    assert [variant(line).get("ContentToken") for line in lines] == ["a", "b", None]
    assert all(line["Response"]["generated_by"] is None for line in lines)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure(FailureKind.BUFFER_FULL, ""), (503, "Buffered requests overflow")),
        (Failure(FailureKind.WAITED_TOO_LONG, ""), (504, "Waiting for available slot timed out")),
        (Failure(FailureKind.SHUTTING_DOWN, ""), (503, "balancer is shutting down")),
        (Failure(FailureKind.AGENT_LOST, ""), (502, "Agent controller connection closed")),
        (Failure(FailureKind.PROMPT_TOO_LONG, "70 tokens, limit 64"), (400, "70 tokens, limit 64")),
        (Failure(FailureKind.EMPTY_PROMPT, "the prompt is empty"), (400, "the prompt is empty")),
        (Failure(FailureKind.ENGINE_FAILED, "the engine failed"), (500, "the engine failed")),
    ],
)
async def test_a_failure_is_an_error_line_inside_the_stream(
    service: InferenceService, failure: Failure, expected: tuple[int, str]
) -> None:
    async with service.connect() as client:
        await client.post(PATH, BODY)
        (await service.groups.wait_opened()).fail(failure)
        answer = await client.read_answer()
        assert answer.status == 200
        (line,) = documents(answer.body)
        code, description = expected
        request_id = answer.head.headers["x-request-id"]
        assert line == {"Error": {"request_id": request_id, "error": {"code": code, "description": description}}}
        # The connection is good for the next request.
        await client.request("GET", "/health")
        assert (await client.read_answer()).text == "OK"


async def test_no_tokens_wanted_is_done_at_once(service: InferenceService) -> None:
    answer = await service.post({"raw_prompt": "x", "max_tokens": 0})
    (line,) = documents(answer.body)
    assert line["Response"]["generated_by"] is None
    assert set(variant(line)["Done"]["usage"].values()) == {0}
    assert variant(line)["Done"]["finish_reason"] == "length"
    assert service.groups.opened == []


async def test_a_grammar_goes_to_the_agent(service: InferenceService) -> None:
    schema = {"type": "object", "properties": {"n": {"const": 12345678901234567890123}}}
    async with service.connect() as client:
        await client.post(PATH, {**BODY, "grammar": {"type": "json_schema", "schema": schema}})
        group = await service.groups.wait_opened()
        constraint = group.opened.request.constraint
        assert constraint is not None
        assert constraint.kind == "json_schema"
        assert json.loads(constraint.text) == schema


async def test_a_schema_with_a_long_enumeration_goes_to_the_agent(service: InferenceService) -> None:
    schema = {"enum": [f"word {number}" for number in range(60_000)]}
    async with service.connect() as client:
        await client.post(PATH, {**BODY, "grammar": {"type": "json_schema", "schema": schema}})
        group = await service.groups.wait_opened()
        constraint = group.opened.request.constraint
        assert constraint is not None
        assert json.loads(constraint.text) == schema


async def test_a_grammar_that_is_too_large_is_refused_in_the_stream(service: InferenceService) -> None:
    answer = await service.post({**BODY, "grammar": {"type": "regex", "pattern": "a" * (1024 * 1024 + 1)}})
    assert answer.status == 200
    (line,) = documents(answer.body)
    assert line["Response"]["generated_by"] is None
    assert "longer than 1048576 bytes" in variant(line)["GrammarInitializationFailed"]
    assert service.groups.opened == []


async def test_a_fleet_for_embeddings_answers_501_but_a_bad_body_is_400(service: InferenceService) -> None:
    service.is_generation_disabled = True
    answer = await service.post(BODY)
    assert answer.status == 501
    assert answer.text == "Token generation is disabled while the cluster is configured for embeddings"
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"
    assert (await service.post({"raw_prompt": "x"})).status == 400
    assert service.groups.opened == []
