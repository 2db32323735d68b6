"""Cases C28 and C29: what is large gets through or is refused by its length, and what is made is sent at once."""

import asyncio
import re
import time

import pytest

from tests.support.native_stream import RAW_PROMPT_PATH
from tests.support.raw_http import RawConnection
from tests.support.running_fleet import COUNTING, RunningFleet
from tests.support.tiny_model import TinyModel, demo_model_path, tiny_model_path

LARGE_CHARACTERS = 1_200_000  # over aiohttp's default of 1 MiB
HUGE_TEMPLATE_CHARACTERS = 6_000_000  # over its default of 4 MiB for websocket messages
KEPT_TEMPLATE_CHARACTERS = 1_000_000
KEY = "tokenizer.chat_template"

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def fleet(shared_fleet: RunningFleet) -> RunningFleet:
    return shared_fleet


@pytest.fixture
def tiny(fleet: RunningFleet) -> RunningFleet:
    fleet.serve(tiny_model_path(fleet.folder))
    return fleet


async def test_a_prompt_of_more_than_a_mebibyte_is_refused_by_its_length_not_by_its_size(tiny: RunningFleet) -> None:
    began = time.monotonic()
    asking = asyncio.create_task(tiny.ask("x" * LARGE_CHARACTERS, 1))
    small = await tiny.ask("a small one beside it", 2)
    refused = await asking
    assert small.error is None
    assert refused.error is not None
    assert refused.error[0] == 400
    # One token per character, the leading BOS, and the context.
    assert re.findall(r"\d+", refused.error[1]) == [str(LARGE_CHARACTERS + 1), "1024"]
    assert time.monotonic() - began < 20.0
    assert tiny.agents[0].log.count("is up") == 1


async def test_a_body_over_the_limit_is_413_and_the_next_request_is_served(tiny: RunningFleet) -> None:
    async with RawConnection.to(tiny.inference) as connection:
        head = f"POST {RAW_PROMPT_PATH} HTTP/1.1\r\nHost: balancer\r\nContent-Type: application/json\r\n"
        await connection.send(f"{head}Content-Length: {9 * 1024 * 1024}\r\n\r\n".encode())
        answer = await connection.read_answer()
    assert answer.status == 413
    assert answer.head.headers["content-type"].startswith("text/plain")
    assert (await tiny.ask("x", 1)).error is None


async def test_metadata_of_megabytes_is_shown_and_the_link_survives(fleet: RunningFleet) -> None:
    """A string over 1 MiB is named by its length: the header reader's memory is bounded."""
    agent_id = fleet.serve(tiny_model_path(fleet.folder, TinyModel(chat_template="x" * KEPT_TEMPLATE_CHARACTERS)))["id"]
    metadata = fleet.get(f"/api/v1/agent/{agent_id}/model_metadata")["metadata"]
    assert metadata[KEY] == "x" * KEPT_TEMPLATE_CHARACTERS
    fleet.serve(tiny_model_path(fleet.folder, TinyModel(chat_template="y" * HUGE_TEMPLATE_CHARACTERS)))
    metadata = fleet.get(f"/api/v1/agent/{agent_id}/model_metadata")["metadata"]
    assert str(HUGE_TEMPLATE_CHARACTERS) in metadata[KEY]
    assert metadata["general.name"] == "tiny random llama"
    assert (await fleet.ask("x", 1)).error is None
    assert fleet.agents[0].log.count("is up") == 1


async def test_each_line_leaves_when_it_is_made_and_no_proxy_is_to_keep_it(fleet: RunningFleet) -> None:
    """C29: the stream of a slow model, and of snapshots."""
    await asyncio.to_thread(fleet.serve, demo_model_path())
    async with fleet.client(COUNTING, 900) as client:
        head = await client.read_head()
        await client.read_pieces(1)
        # The first line is here while the answer is still being made.
        assert fleet.gauges()["slots_processing"] == 1
        assert head.headers["cache-control"] == "no-cache"
        assert head.headers["x-accel-buffering"] == "no"
        assert not head.headers.keys() & {"content-length", "content-encoding"}
        async with RawConnection.to(fleet.management) as watcher:
            await watcher.request("GET", "/api/v1/agents/stream", headers={"Accept-Encoding": "gzip, br"})
            head = await watcher.read_head()
            assert head.headers["content-type"].startswith("text/event-stream")
            assert head.headers["cache-control"] == "no-cache"
            assert head.headers["x-accel-buffering"] == "no"
            assert not head.headers.keys() & {"content-length", "content-encoding"}
            assert b'"slots_processing":1' in await watcher.read_chunk()
            client.connection.close()
            async for chunk in watcher.chunks():
                if b'"slots_processing":0' in chunk:
                    break
    await fleet.wait_idle()
