"""What the management service shows of the fleet, over real sockets: documents, event streams, agents' answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from balancer.desired_state_store import InMemoryDesiredStateStore
from tests.support.fleet_snapshots import GONE, SILENT, Agent, Statistics, status
from tests.support.management_service import ManagementService, management_service
from tests.support.raw_http import AnswerBroken, RawConnection

STREAMS = ["/api/v1/agents/stream", "/api/v1/fleet/stream", "/api/v1/buffered_requests/stream"]
KEEP_ALIVE = b": keep-alive\n\n"


@pytest.fixture
async def service() -> AsyncIterator[ManagementService]:
    async with management_service(InMemoryDesiredStateStore()) as started:
        yield started


def event(chunk: bytes) -> Any:
    assert chunk.startswith(b"data: {")
    assert chunk.endswith(b"}\n\n")
    assert chunk.count(b"\n") == 2
    return json.loads(chunk.removeprefix(b"data: "))


async def read_for_ever(client: RawConnection) -> None:
    while True:
        await client.read_chunk()


async def begin(client: RawConnection, path: str) -> Any:
    """Ask for a stream; its first snapshot."""
    await client.request("GET", path)
    assert (await client.read_head()).status == 200
    first = event(await client.read_chunk())
    assert await client.read_chunk() == KEEP_ALIVE
    return first


async def test_health_is_ok_whatever_else_is_wrong(service: ManagementService) -> None:
    service.is_shutting_down = True
    answer = await service.get("/health")
    assert (answer.status, answer.text) == (200, "OK")
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"


async def test_ready_needs_a_slot_that_serves(service: ManagementService) -> None:
    before = await service.get("/ready")
    assert before.status == 503
    assert json.loads(before.body) == {
        "ready": False,
        "wanted_revision": 0,
        "serving_revisions": [],
        "slots_total": 0,
        "reason": "no agent is connected",
    }
    service.switchboard.show(Agent())
    after = await service.get("/ready")
    assert after.status == 200
    assert json.loads(after.body) == {
        "ready": True,
        "wanted_revision": 0,
        "serving_revisions": [1],
        "slots_total": 4,
    }
    service.is_shutting_down = True
    assert (await service.get("/ready")).status == 503


async def test_agents_and_fleet(service: ManagementService) -> None:
    assert await service.get_json("/api/v1/agents") == {"agents": []}
    service.switchboard.show(Agent("b", "b"), Agent("a", "a"))
    agents = (await service.get_json("/api/v1/agents"))["agents"]
    assert [agent["id"] for agent in agents] == ["a", "b"]
    assert len(agents[0]) == 13
    fleet = await service.get_json("/api/v1/fleet")
    assert [agent["id"] for agent in fleet["agents"]] == ["a", "b"]
    assert fleet["slots_total"] == 8


async def test_buffered_requests(service: ManagementService) -> None:
    service.switchboard.count(Statistics(requests_buffered=3))
    assert await service.get_json("/api/v1/buffered_requests") == {"buffered_requests_current": 3}


@pytest.mark.parametrize("figures", [Statistics(), Statistics(0, 1, 0), Statistics(3, 2, 2), Statistics(0, 2, 0)])
async def test_metrics_parse_at_any_moment(service: ManagementService, figures: Statistics) -> None:
    service.switchboard.count(figures)
    answer = await service.get("/metrics")
    assert answer.head.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = {
        sample.name: sample.value for family in text_string_to_metric_families(answer.text) for sample in family.samples
    }
    assert values == {
        "paddler_slots_processing": figures.slots_processing,
        "paddler_slots_total": figures.slots_total,
        "paddler_requests_buffered": figures.requests_buffered,
        "steersman_build_info": 1.0,
    }


async def test_what_an_agent_answers_is_passed_on(service: ManagementService) -> None:
    service.switchboard.metadata = {"a": {"general.name": "Tiny", "general.architecture": "llama"}, "b": None}
    service.switchboard.overrides = {"a": "{{ messages }}", "b": None}
    answer = await service.get("/api/v1/agent/a/model_metadata")
    assert answer.text == '{"metadata":{"general.architecture":"llama","general.name":"Tiny"}}'
    assert await service.get_json("/api/v1/agent/b/model_metadata") is None
    assert await service.get_json("/api/v1/agent/a/chat_template_override") == {"content": "{{ messages }}"}
    assert await service.get_json("/api/v1/agent/b/chat_template_override") is None


async def test_agents_that_do_not_answer_have_paddlers_statuses(service: ManagementService) -> None:
    service.switchboard.metadata = {"gone": GONE, "silent": SILENT}
    service.switchboard.overrides = {"gone": GONE, "silent": SILENT}
    for agent_id, expected in (("unknown", 404), ("gone", 502), ("silent", 504)):
        for question in ("model_metadata", "chat_template_override"):
            answer = await service.get(f"/api/v1/agent/{agent_id}/{question}")
            assert (answer.status, answer.body) == (expected, b"")


async def test_stories_are_told_as_long_as_they_are_remembered(service: ManagementService) -> None:
    service.switchboard.stories = {"r-1": ("arrived", "dispatched to a")}
    assert await service.get_json("/api/v1/stories/r-1") == {
        "request_id": "r-1",
        "story": ["arrived", "dispatched to a"],
    }
    answer = await service.get("/api/v1/stories/other")
    assert (answer.status, answer.body) == (404, b"")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/api/v1/agents/"),
        ("GET", "/api/v1/agent/a"),
        ("POST", "/api/v1/agents"),
        ("HEAD", "/api/v1/agents/stream"),
        ("DELETE", "/metrics"),
        ("PUT", "/ready"),
    ],
)
async def test_other_paths_and_methods_are_404_without_a_body(
    service: ManagementService, method: str, path: str
) -> None:
    answer = await service.ask(method, path)
    assert (answer.status, answer.body) == (404, b"")


# Event streams


@pytest.mark.parametrize("path", STREAMS)
async def test_a_stream_begins_with_a_snapshot_and_cannot_be_held_up(service: ManagementService, path: str) -> None:
    """Case C29: proxies are told not to collect it, and each event is a chunk of its own."""
    async with service.connect() as client:
        await client.request("GET", path, headers={"Accept-Encoding": "gzip, deflate"})
        head = await client.read_head()
        assert head.headers["content-type"] == "text/event-stream"
        assert head.headers["cache-control"] == "no-cache"
        assert head.headers["x-accel-buffering"] == "no"
        assert head.headers["transfer-encoding"] == "chunked"
        assert "content-length" not in head.headers
        assert "content-encoding" not in head.headers
        plain = await service.get_json(path.removesuffix("/stream"))
        assert event(await client.read_chunk()) == plain
        assert await client.read_chunk() == KEEP_ALIVE


async def test_a_stream_shows_each_change(service: ManagementService) -> None:
    async with service.connect() as client:
        assert await begin(client, "/api/v1/agents/stream") == {"agents": []}
        for slots in (1, 2, 3):
            service.switchboard.show(Agent(status=status(slots_total=slots)))
            shown = event(await client.read_chunk())
            assert [agent["slots_total"] for agent in shown["agents"]] == [slots]


async def test_changes_that_come_together_are_one_snapshot_of_the_newest(service: ManagementService) -> None:
    async with service.connect() as client:
        await begin(client, "/api/v1/buffered_requests/stream")
        for waiting in range(1, 100):
            service.switchboard.count(Statistics(requests_buffered=waiting))
        assert event(await client.read_chunk()) == {"buffered_requests_current": 99}


async def test_a_change_of_something_else_is_no_event(service: ManagementService) -> None:
    async with service.connect() as client:
        await begin(client, "/api/v1/buffered_requests/stream")
        service.switchboard.show(Agent())
        await service.get("/health")  # so that the stream has had its turn
        service.switchboard.count(Statistics(requests_buffered=1))
        assert event(await client.read_chunk()) == {"buffered_requests_current": 1}


@pytest.mark.parametrize("path", STREAMS)
async def test_a_quiet_stream_says_that_it_lives(path: str) -> None:
    async with (
        management_service(InMemoryDesiredStateStore(), keep_alive_seconds=0.02) as service,
        service.connect() as client,
    ):
        await begin(client, path)
        for _ in range(3):
            assert await client.read_chunk() == KEEP_ALIVE


async def test_a_stream_says_that_it_lives_while_only_other_things_change() -> None:
    async with (
        management_service(InMemoryDesiredStateStore(), keep_alive_seconds=0.05) as service,
        service.connect() as client,
    ):
        await begin(client, "/api/v1/buffered_requests/stream")

        async def change_for_ever() -> None:
            while True:
                service.switchboard.show(Agent())
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            changing = tasks.create_task(change_for_ever(), name="changes")
            assert await client.read_chunk() == KEEP_ALIVE
            changing.cancel()


async def test_snapshots_keep_their_distance() -> None:
    async with (
        management_service(InMemoryDesiredStateStore(), least_seconds_between_snapshots=0.2) as service,
        service.connect() as client,
    ):
        await begin(client, "/api/v1/buffered_requests/stream")
        loop = asyncio.get_running_loop()
        began = loop.time()
        for waiting in (1, 2, 3):
            service.switchboard.count(Statistics(requests_buffered=waiting))
            event(await client.read_chunk())
        assert loop.time() - began >= 0.55


@pytest.mark.parametrize("path", STREAMS)
async def test_streams_end_whole_when_the_service_stops(path: str) -> None:
    async with management_service(InMemoryDesiredStateStore(), least_seconds_between_snapshots=60.0) as service:
        async with service.connect() as waiting, service.connect() as pausing:
            await begin(waiting, path)
            await begin(pausing, path)
            service.switchboard.show(Agent())  # both now keep their distance for a minute
            async with asyncio.timeout(5):
                await service.listener.close()
            for client in (waiting, pausing):
                while await client.read_chunk():
                    pass


async def test_a_client_that_leaves_gives_its_stream_back() -> None:
    async with management_service(InMemoryDesiredStateStore(), max_open_streams=2) as service:
        for _ in range(3):
            async with service.connect() as one, service.connect() as other:
                await begin(one, STREAMS[0])
                await begin(other, STREAMS[1])
                refused = await service.get(STREAMS[2])
                assert (refused.status, refused.text) == (503, "too many event streams are open")
            async with asyncio.timeout(10):
                while (await _first_status(service)) != 200:
                    await asyncio.sleep(0.01)


async def _first_status(service: ManagementService) -> int:
    async with service.connect() as one, service.connect() as other:
        statuses = []
        for client in (one, other):
            await client.request("GET", STREAMS[0])
            statuses.append((await client.read_head()).status)
        return max(statuses)


async def test_a_client_that_does_not_read_holds_up_nobody_else(service: ManagementService) -> None:
    many = tuple(Agent(f"agent-{index:04}") for index in range(2000))
    async with (
        RawConnection.to(service.address, receive_buffer_bytes=4096) as stuck,
        service.connect() as reader,
    ):
        await stuck.request("GET", STREAMS[0])
        await begin(reader, STREAMS[0])
        for count in (1, 500, 1000, 2000):
            service.switchboard.show(*many[:count])
            assert len(event(await reader.read_chunk())["agents"]) == count
        stuck.reset()


async def test_a_stream_that_is_reset_leaves_the_service_whole(service: ManagementService) -> None:
    async with service.connect() as client:
        await begin(client, STREAMS[0])
        client.reset()
    service.switchboard.show(Agent())
    assert len((await service.get_json("/api/v1/agents"))["agents"]) == 1
    async with service.connect() as client:
        await begin(client, STREAMS[0])
        client.half_close()  # counts as gone, as with Paddler
        service.switchboard.show()
        with pytest.raises(AnswerBroken):
            await read_for_ever(client)
