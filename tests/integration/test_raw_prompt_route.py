"""`POST /api/v1/continue_from_raw_prompt` over real sockets and our own listener; the test plays the switchboard.

aiohttp's test server would be kinder than production (it cancels handlers of clients that left), so it is not used.
"""

import gzip
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from balancer.listeners import Listener, new_service
from balancer.native_routes import NativeRoutes
from balancer.request_body import BodyLimits
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason, Usage
from shared.settings_sources import Address
from tests.support.conditions import wait_until
from tests.support.raw_http import Answer, AnswerBroken, RawConnection, documents
from tests.support.scripted_groups import ScriptedGroup, ScriptedGroups

PATH = "/api/v1/continue_from_raw_prompt"
BODY = {"raw_prompt": "2+2=", "max_tokens": 16}
MAX_BYTES = 2_000_000


@dataclass(slots=True)
class Service:
    """The inference service, listening."""

    groups: ScriptedGroups
    address: Address = field(default_factory=lambda: Address("127.0.0.1", 0))
    is_generation_disabled: bool = False

    def connect(self, receive_buffer_bytes: int | None = None) -> AbstractAsyncContextManager[RawConnection]:
        return RawConnection.to(self.address, receive_buffer_bytes=receive_buffer_bytes)

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        async with self.connect() as client:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            await client.request(method, path, body, given)
            return await client.read_answer()

    async def post(self, body: Any, **headers: str) -> Answer:
        async with self.connect() as client:
            await client.post(PATH, body, **headers)
            return await client.read_answer()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    started = Service(ScriptedGroups(max_pending_bytes=64 * 1024 * 1024))
    app = new_service(["https://app.example.com"])
    NativeRoutes(
        open_group=lambda request: started.groups.open_group(request),
        is_generation_disabled=lambda: started.is_generation_disabled,
        body_limits=BodyLimits(max_bytes=MAX_BYTES, timeout_seconds=10.0),
        item_timeout_seconds=30.0,
        stall_seconds=0.5,
    ).add_to(app)
    listener = Listener("inference", app, started.address)
    await listener.start()
    (started.address,) = listener.addresses
    yield started
    await listener.close()


def post_head(length: str) -> bytes:
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n".encode()


def token(text: str, name: str | None = "agent-a") -> Callable[[str], dict[str, Any]]:
    return lambda request_id: {
        "Response": {
            "generated_by": name,
            "request_id": request_id,
            "response": {"GeneratedToken": {"ContentToken": text}},
        }
    }


def variant(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["Response"]["response"]["GeneratedToken"]
    return found


async def test_each_token_is_a_line_and_a_chunk_of_its_own_and_done_is_the_last(service: Service) -> None:
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


async def test_what_came_at_once_goes_out_as_lines_of_its_own_without_empty_ones(service: Service) -> None:
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
    service: Service, failure: Failure, expected: tuple[int, str]
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


# Leaving

Leave = Callable[[RawConnection], None]
LARGE_TOKENS = 300
LARGE_TOKEN_CHARACTERS = (
    40_000  # times 300 is 12 MB; Linux holds about 4 MB for a sender, the rest waits in the balancer
)


async def give_more_than_sockets_hold(group: ScriptedGroup) -> None:
    """Returns when the route has taken all of it, so that it waits for its client."""
    for number in range(LARGE_TOKENS):
        group.give(f"{number}".ljust(LARGE_TOKEN_CHARACTERS))
    await wait_until(lambda: not group.streams[0].pending_bytes)


LEAVES: dict[str, Leave] = {
    "closes": RawConnection.close,
    "resets": RawConnection.reset,
    "half-closes": RawConnection.half_close,
}


@pytest.mark.parametrize("how", LEAVES)
async def test_a_client_that_leaves_while_it_waits_is_noticed_at_once(service: Service, how: str) -> None:
    async with service.connect() as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await client.read_head()
        LEAVES[how](client)
        await group.wait_left()


@pytest.mark.parametrize("how", LEAVES)
async def test_a_client_that_leaves_between_tokens_is_noticed_at_once(service: Service, how: str) -> None:
    async with service.connect() as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await client.read_head()
        group.give("a")
        await client.read_chunk()
        assert not group.has_left.is_set()
        LEAVES[how](client)
        await group.wait_left()


@pytest.mark.parametrize("how", LEAVES)
async def test_a_client_that_leaves_without_having_read_its_answer_is_noticed(service: Service, how: str) -> None:
    async with service.connect(receive_buffer_bytes=65536) as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await give_more_than_sockets_hold(group)
        LEAVES[how](client)
        await group.wait_left()


async def test_a_client_that_leaves_inside_its_body_opens_nothing(service: Service) -> None:
    async with service.connect() as client:
        await client.send(post_head("Content-Length: 100") + b"{")
        client.half_close()
        assert await client.read_to_end() == b""
    assert service.groups.opened == []


async def test_a_client_that_reads_nothing_is_cut_off_and_its_group_left(service: Service) -> None:
    async with service.connect(receive_buffer_bytes=65536) as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await give_more_than_sockets_hold(group)
        group.finish()
        await group.wait_left()
        with pytest.raises(AnswerBroken):
            await client.read_answer()


async def test_a_client_that_reads_late_misses_nothing(service: Service) -> None:
    async with service.connect(receive_buffer_bytes=65536) as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await give_more_than_sockets_hold(group)
        group.finish()
        answer = await client.read_answer()
    lines = documents(answer.body)
    assert [variant(line)["ContentToken"].strip() for line in lines[:-1]] == [
        str(number) for number in range(LARGE_TOKENS)
    ]
    assert "Done" in variant(lines[-1])


async def test_an_answer_over_its_bound_is_broken_off_and_never_looks_whole(service: Service) -> None:
    async with service.connect() as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await client.read_head()
        group.fail(Failure(FailureKind.SLOW_CONSUMER, ""))
        with pytest.raises(AnswerBroken):
            await client.read_chunk()
        await group.wait_left()


async def test_a_client_that_is_stuck_in_a_write_is_cut_off_as_soon_as_it_is_too_slow(service: Service) -> None:
    async with service.connect(receive_buffer_bytes=65536) as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await give_more_than_sockets_hold(group)
        group.opened.abort()
        await group.wait_left()
        with pytest.raises(AnswerBroken):
            await client.read_answer()


# Without an agent


async def test_no_tokens_wanted_is_done_at_once(service: Service) -> None:
    answer = await service.post({"raw_prompt": "x", "max_tokens": 0})
    (line,) = documents(answer.body)
    assert line["Response"]["generated_by"] is None
    assert set(variant(line)["Done"]["usage"].values()) == {0}
    assert variant(line)["Done"]["finish_reason"] == "length"
    assert service.groups.opened == []


@pytest.mark.parametrize(
    "grammar",
    [{"type": "gbnf", "grammar": "root ::= [0-9]", "root": "root"}, {"type": "json_schema", "schema": "{}"}],
)
async def test_a_grammar_is_never_ignored(service: Service, grammar: dict[str, str]) -> None:
    answer = await service.post({**BODY, "grammar": grammar})
    (line,) = documents(answer.body)
    assert line["Response"]["generated_by"] is None
    assert variant(line) == {"GrammarInitializationFailed": "not supported yet"}
    assert service.groups.opened == []


async def test_a_fleet_for_embeddings_answers_501_but_a_bad_body_is_400(service: Service) -> None:
    service.is_generation_disabled = True
    answer = await service.post(BODY)
    assert answer.status == 501
    assert answer.text == "Token generation is disabled while the cluster is configured for embeddings"
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"
    assert (await service.post({"raw_prompt": "x"})).status == 400
    assert service.groups.opened == []


# Bodies


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"raw_prompt": "x"}', "max_tokens: is required"),
        (b'{"raw_prompt": "x", "max_tokens": -1}', "max_tokens: must be at least 0"),
        (b'{"raw_prompt": "x", "max_tokens": 2147483648}', "max_tokens: must be at most 2147483647"),
        (b'{"raw_prompt": "x", "max_tokens": true}', "max_tokens: must be an integer"),
        (b'{"raw_prompt": "x", "max_tokens": 1, "max_tokens": 2}', "max_tokens: is given twice"),
        (b'{"raw_prompt": "x", "max_tokens": 1, "temperature": 1}', "temperature: is not a known field"),
        (b'{"raw_prompt": "\\ud800", "max_tokens": 1}', "the body is not valid JSON"),
        (b"[" * 5_000, "the body is not valid JSON"),
        (b"[" * 100_000, "the body holds more than 20000 strings, lists and objects"),
        (b"", "the body is empty"),
    ],
)
async def test_a_bad_body_is_400_in_plain_words(service: Service, body: bytes, sentence: str) -> None:
    answer = await service.post(body)
    assert answer.status == 400
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.startswith(f"Json deserialize error: {sentence}")
    assert service.groups.opened == []


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "text/json", "json"])
async def test_another_content_type_is_400(service: Service, content_type: str) -> None:
    answer = await service.post(BODY, Content_Type=content_type)
    assert (answer.status, answer.text) == (400, "Content type error")


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "application/vnd.x+json", "Application/JSON"]
)
async def test_every_kind_of_json_is_taken(service: Service, content_type: str) -> None:
    assert (await service.post({"raw_prompt": "x", "max_tokens": 0}, Content_Type=content_type)).status == 200


async def test_a_body_over_the_limit_is_413_before_it_is_sent(service: Service) -> None:
    async with service.connect() as client:
        await client.send(post_head("Content-Length: 3000000"))
        answer = await client.read_answer()
    assert answer.status == 413
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == f"JSON payload (3000000 bytes) is larger than allowed (limit: {MAX_BYTES} bytes)."


async def test_a_chunked_body_over_the_limit_is_413_as_soon_as_it_passes_it(service: Service) -> None:
    async with service.connect() as client:
        await client.send(post_head("Transfer-Encoding: chunked"))
        await client.send(b"%x\r\n" % MAX_BYTES + b" " * MAX_BYTES + b"\r\n1\r\n \r\n")
        answer = await client.read_answer()
    assert (answer.status, answer.text) == (413, f"JSON payload has exceeded limit ({MAX_BYTES} bytes).")


async def test_a_small_body_that_unpacks_to_a_large_one_is_413(service: Service) -> None:
    bomb = gzip.compress(b" " * (MAX_BYTES + 1))
    assert (await service.post(bomb, Content_Encoding="gzip")).status == 413


async def test_a_large_body_under_the_limit_works_end_to_end(service: Service) -> None:
    prompt = 'é"\\' * 300_000
    async with service.connect() as client:
        await client.post(PATH, json.dumps({"raw_prompt": prompt, "max_tokens": 1}, ensure_ascii=False).encode())
        group = await service.groups.wait_opened()
        assert group.request.raw_prompt == prompt
        group.finish()
        assert (await client.read_answer()).status == 200


async def test_a_body_that_never_ends_is_given_up(service: Service) -> None:
    app = new_service([])
    NativeRoutes(service.groups.open_group, lambda: False, BodyLimits(timeout_seconds=0.05), 30.0).add_to(app)
    listener = Listener("impatient", app, Address("127.0.0.1", 0))
    await listener.start()
    try:
        async with RawConnection.to(listener.addresses[0]) as client:
            await client.send(post_head("Content-Length: 9") + b"{")
            assert (await client.read_answer()).status == 408
    finally:
        await listener.close()


# The service around the route


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", PATH), ("PUT", PATH), ("POST", "/health"), ("GET", "/"), ("GET", f"{PATH}/"), ("OPTIONS", PATH)],
)
async def test_an_unknown_path_and_a_wrong_method_are_404_without_a_body(
    service: Service, method: str, path: str
) -> None:
    answer = await service.ask(method, path)
    assert (answer.status, answer.body) == (404, b"")


async def test_health_is_ok(service: Service) -> None:
    answer = await service.ask("GET", "/health")
    assert (answer.status, answer.text) == (200, "OK")
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"


async def test_a_page_of_an_allowed_origin_may_ask_and_read(service: Service) -> None:
    ask = partial(service.ask, Origin="https://app.example.com", Access_Control_Request_Method="POST")
    headers = (await ask("OPTIONS", PATH)).head.headers
    assert headers["access-control-allow-origin"] == "https://app.example.com"
    assert headers["access-control-allow-methods"] == "DELETE, GET, POST, PUT, OPTIONS"
    for name in ("Accept", "Authorization", "Content-Type", "x-api-key", "anthropic-version", "traceparent"):
        assert name in headers["access-control-allow-headers"]
    assert headers["access-control-max-age"] == "3600"
    for body in ({"raw_prompt": "x", "max_tokens": 0}, {}):  # streams and refusals alike
        headers = (await service.post(body, Origin="https://app.example.com")).head.headers
        assert headers["access-control-allow-origin"] == "https://app.example.com"
        assert headers["access-control-expose-headers"] == "x-request-id, Retry-After"
        assert "x-request-id" in headers


async def test_other_origins_are_served_but_their_pages_may_not_read(service: Service) -> None:
    for origin in ("https://evil.example.com", "http://app.example.com", "https://app.example.com:8443", "null"):
        answer = await service.ask("OPTIONS", PATH, Origin=origin, Access_Control_Request_Method="POST")
        assert (answer.status, answer.text) == (400, "Origin is not allowed to make this request")
        answer = await service.post({"raw_prompt": "x", "max_tokens": 0}, Origin=origin)
        assert answer.status == 200
        assert "access-control-allow-origin" not in answer.head.headers
        assert answer.head.headers["vary"] == "Origin"


async def test_a_bug_of_ours_is_500_without_its_traceback(
    service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> ScriptedGroup:
        raise KeyError("a secret detail")

    monkeypatch.setattr(ScriptedGroups, "open_group", broken)
    answer = await service.post(BODY)
    assert (answer.status, answer.text) == (500, "Internal server error")
    assert "a secret detail" in caplog.text
    assert "2+2" not in caplog.text


async def test_an_answer_to_http_1_0_has_no_chunks_and_ends_with_its_connection(service: Service) -> None:
    async with service.connect() as client:
        body = json.dumps(BODY).encode()
        head = f"POST {PATH} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        await client.send(head.encode() + body)
        group = await service.groups.wait_opened()
        group.give("4")
        group.finish()
        assert "transfer-encoding" not in (await client.read_head()).headers
        lines = documents(await client.read_to_end())
    assert [next(iter(variant(line))) for line in lines] == ["ContentToken", "Done"]


async def test_requests_sent_one_after_the_other_on_one_connection_are_answered_in_order(service: Service) -> None:
    async with service.connect() as client:
        await client.post(PATH, {"raw_prompt": "first", "max_tokens": 1})
        await client.post(PATH, {"raw_prompt": "second", "max_tokens": 1})
        for prompt in ("first", "second"):
            group = await service.groups.wait_opened()
            assert group.request.raw_prompt == prompt
            group.give(prompt)
            group.finish()
            lines = documents((await client.read_answer()).body)
            assert variant(lines[0]) == {"ContentToken": prompt}
            await group.wait_left()
