"""Bodies that are wrong, large, compressed, slow or unlabelled."""

import gzip
import json

import pytest

from balancer.listeners import Listener, new_service
from balancer.native_routes import NativeRoutes
from balancer.request_body import BodyLimits
from shared.settings_sources import Address
from tests.support.inference_service import BODY, MAX_BYTES, PATH, InferenceService, post_head
from tests.support.raw_http import RawConnection


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"raw_prompt": "x"}', "max_tokens: is required"),
        (b'{"raw_prompt": "x", "max_tokens": -1}', "max_tokens: must be at least 0"),
        (b'{"raw_prompt": "x", "max_tokens": 2147483648}', "max_tokens: must be at most 2147483647"),
        (b'{"raw_prompt": "x", "max_tokens": true}', "max_tokens: must be an integer"),
        (b'{"raw_prompt": "x", "max_tokens": 1, "max_tokens": 2}', "max_tokens: is given twice"),
        (
            b'{"raw_prompt": "x", "max_tokens": 1, "temperature": 1}',
            'temperature: is not a known field; put it into "sampling"',
        ),
        (b'{"raw_prompt": "\\ud800", "max_tokens": 1}', "the body is not valid JSON"),
        (b"[" * 5_000, "the body is not valid JSON"),
        (b"[" * 100_000, "the body holds more than 20000 strings, lists and objects"),
        (b"", "the body is empty"),
    ],
)
async def test_a_bad_body_is_400_in_plain_words(service: InferenceService, body: bytes, sentence: str) -> None:
    answer = await service.post(body)
    assert answer.status == 400
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.startswith(f"Json deserialize error: {sentence}")
    assert service.groups.opened == []


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "text/json", "json"])
async def test_another_content_type_is_400(service: InferenceService, content_type: str) -> None:
    answer = await service.post(BODY, Content_Type=content_type)
    assert (answer.status, answer.text) == (
        400,
        "Content type error: send the header Content-Type: application/json",
    )


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "application/vnd.x+json", "Application/JSON"]
)
async def test_every_kind_of_json_is_taken(service: InferenceService, content_type: str) -> None:
    assert (await service.post({"raw_prompt": "x", "max_tokens": 0}, Content_Type=content_type)).status == 200


async def test_a_body_over_the_limit_is_413_before_it_is_sent(service: InferenceService) -> None:
    async with service.connect() as client:
        await client.send(post_head("Content-Length: 3000000"))
        answer = await client.read_answer()
    assert answer.status == 413
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == f"JSON payload (3000000 bytes) is larger than allowed (limit: {MAX_BYTES} bytes)."


async def test_a_chunked_body_over_the_limit_is_413_as_soon_as_it_passes_it(service: InferenceService) -> None:
    async with service.connect() as client:
        await client.send(post_head("Transfer-Encoding: chunked"))
        await client.send(b"%x\r\n" % MAX_BYTES + b" " * MAX_BYTES + b"\r\n1\r\n \r\n")
        answer = await client.read_answer()
    assert (answer.status, answer.text) == (413, f"JSON payload has exceeded limit ({MAX_BYTES} bytes).")


async def test_a_small_body_that_unpacks_to_a_large_one_is_413(service: InferenceService) -> None:
    bomb = gzip.compress(b" " * (MAX_BYTES + 1))
    assert (await service.post(bomb, Content_Encoding="gzip")).status == 413


async def test_a_large_body_under_the_limit_works_end_to_end(service: InferenceService) -> None:
    prompt = 'é"\\' * 300_000
    async with service.connect() as client:
        await client.post(PATH, json.dumps({"raw_prompt": prompt, "max_tokens": 1}, ensure_ascii=False).encode())
        group = await service.groups.wait_opened()
        assert group.request.raw_prompt == prompt
        group.finish()
        assert (await client.read_answer()).status == 200


async def test_a_body_that_never_ends_is_given_up(service: InferenceService) -> None:
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
