"""The service around the route: other paths, health, origins, bugs of ours, old clients."""

import json
from functools import partial
from typing import Any

import pytest

from tests.support.inference_service import BODY, PATH, InferenceService, variant
from tests.support.raw_http import documents
from tests.support.scripted_groups import ScriptedGroup, ScriptedGroups


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", PATH), ("PUT", PATH), ("POST", "/health"), ("GET", "/"), ("GET", f"{PATH}/"), ("OPTIONS", PATH)],
)
async def test_an_unknown_path_and_a_wrong_method_are_404_without_a_body(
    service: InferenceService, method: str, path: str
) -> None:
    answer = await service.ask(method, path)
    assert (answer.status, answer.body) == (404, b"")


async def test_health_is_ok(service: InferenceService) -> None:
    answer = await service.ask("GET", "/health")
    assert (answer.status, answer.text) == (200, "OK")
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"


async def test_a_page_of_an_allowed_origin_may_ask_and_read(service: InferenceService) -> None:
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


async def test_other_origins_are_served_but_their_pages_may_not_read(service: InferenceService) -> None:
    for origin in ("https://evil.example.com", "http://app.example.com", "https://app.example.com:8443", "null"):
        answer = await service.ask("OPTIONS", PATH, Origin=origin, Access_Control_Request_Method="POST")
        assert (answer.status, answer.text) == (400, "Origin is not allowed to make this request")
        answer = await service.post({"raw_prompt": "x", "max_tokens": 0}, Origin=origin)
        assert answer.status == 200
        assert "access-control-allow-origin" not in answer.head.headers
        assert answer.head.headers["vary"] == "Origin"


async def test_a_bug_of_ours_is_500_without_its_traceback(
    service: InferenceService, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> ScriptedGroup:
        raise KeyError("a secret detail")

    monkeypatch.setattr(ScriptedGroups, "open_group", broken)
    answer = await service.post(BODY)
    assert (answer.status, answer.text) == (500, "Internal server error")
    assert "a secret detail" in caplog.text
    assert "2+2" not in caplog.text


async def test_an_answer_to_http_1_0_has_no_chunks_and_ends_with_its_connection(service: InferenceService) -> None:
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


async def test_requests_sent_one_after_the_other_on_one_connection_are_answered_in_order(
    service: InferenceService,
) -> None:
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
