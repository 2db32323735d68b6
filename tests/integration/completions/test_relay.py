"""What the relay does when nothing comes, when what comes makes no sense, and when the client reads too slowly."""

import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from balancer.compat_relay import CompatRelay
from balancer.completions_answers import CompletionAnswers
from balancer.completions_dialect import CompletionLimits
from balancer.completions_routes import CompletionsRoutes
from balancer.linked_agents import FleetSnapshot
from balancer.listeners import Listener, new_service
from balancer.request_body import BodyLimits
from shared.desired_state import DEFAULT_DESIRED_STATE, BalancerDesiredState
from shared.failures import Failure, FailureKind
from shared.generation import Channel
from shared.logprobs import LogprobEntry, LogprobPlace, pack_places
from shared.messages_from_agent import TokenItem
from shared.settings_sources import Address
from tests.support.raw_http import AnswerBroken, RawConnection
from tests.support.scripted_groups import ScriptedGroup, ScriptedGroups

BODY: dict[str, Any] = {"model": "m", "prompt": [1], "stream": True}
STATE = BalancerDesiredState.model_validate({**DEFAULT_DESIRED_STATE.document(), "model": {"LocalToAgent": "/m.gguf"}})


@dataclass(slots=True)
class Service:
    """The test plays the switchboard."""

    groups: ScriptedGroups = field(default_factory=ScriptedGroups)
    address: Address = field(default_factory=lambda: Address("127.0.0.1", 0))

    async def accepted(self, client: RawConnection, **fields: Any) -> ScriptedGroup:
        """A stream whose headers have come."""
        await client.post("/v1/completions", {**BODY, **fields})
        group = await self.groups.wait_opened()
        group.run_on("agent")
        group.streams[0].put_accepted(1, 0.0)
        assert (await client.read_head()).status == 200
        return group


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    started = Service()
    app = new_service([])
    CompletionsRoutes(
        relay=CompatRelay(started.groups.open_group, 30.0, stall_seconds=0.5, keep_alive_seconds=0.05),
        wanted_state=lambda: STATE,
        body_limits=BodyLimits(),
        limits=CompletionLimits(),
        fleet=lambda: FleetSnapshot((), 1, None),
    ).add_to(app)
    listener = Listener("compat", app, started.address)
    await listener.start()
    (started.address,) = listener.addresses
    yield started
    await listener.close()


async def test_a_quiet_stream_gets_comments_and_loses_nothing(service: Service) -> None:
    async with RawConnection.to(service.address) as client:
        group = await service.accepted(client)
        for _ in range(2):
            assert await client.read_chunk() == b": still here\n\n"
        group.give("A")
        group.finish()
        rest = b"".join([chunk async for chunk in client.chunks()])
        assert rest.count(b'"text":"A"') == 1
        assert rest.endswith(b"data: [DONE]\n\n")
        await group.wait_left()


async def test_what_cannot_be_shaped_ends_the_stream_with_an_error(service: Service) -> None:
    async with RawConnection.to(service.address) as client:
        group = await service.accepted(client, logprobs=1)
        group.streams[0].put_item(TokenItem(1, 1, 0, (5,), "x", Channel.CONTENT, b"\x01"), now=0.0)
        rest = b"".join([chunk async for chunk in client.chunks()])
        assert b'"message":"Internal server error"' in rest
        assert b"DONE" not in rest
        await group.wait_left()


async def test_a_client_that_reads_too_slowly_gets_a_broken_answer_and_no_whole_one(service: Service) -> None:
    async with RawConnection.to(service.address) as client:
        group = await service.accepted(client)
        group.fail(Failure(FailureKind.SLOW_CONSUMER, "too slow"))
        with pytest.raises(AnswerBroken):
            [chunk async for chunk in client.chunks()]
        await group.wait_left()


async def test_a_client_that_leaves_while_nothing_comes_is_noticed(service: Service) -> None:
    async with RawConnection.to(service.address) as client:
        await client.post("/v1/completions", BODY)
        group = await service.groups.wait_opened()
        client.close()
        await group.wait_left()


@pytest.mark.parametrize(("places", "is_apart"), [(1, False), (6000, True)])
async def test_a_long_whole_answer_is_shaped_apart_from_the_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch, places: int, is_apart: bool
) -> None:
    threads: list[threading.Thread] = []
    whole = CompletionAnswers.whole

    def noted(answers: CompletionAnswers) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return whole(answers)

    monkeypatch.setattr(CompletionAnswers, "whole", noted)
    packed = pack_places((LogprobPlace(LogprobEntry(5, -1.0, b"x")),) * places)
    async with RawConnection.to(service.address) as client:
        await client.post("/v1/completions", {**BODY, "stream": False, "echo": True, "logprobs": 1})
        group = await service.groups.wait_opened()
        group.run_on("agent")
        group.streams[0].put_item(TokenItem(1, 1, 0, (), "", Channel.CONTENT, packed), now=0.0)
        group.finish()
        answer = await client.read_answer()
        assert answer.status == 200
        assert answer.body.count(b"-1.0") == places
        await group.wait_left()
    assert [one is not threading.current_thread() for one in threads] == [is_apart]


async def test_a_whole_answer_that_cannot_be_shaped_is_a_500(service: Service) -> None:
    async with RawConnection.to(service.address) as client:
        await client.post("/v1/completions", {**BODY, "stream": False, "logprobs": 1})
        group = await service.groups.wait_opened()
        group.run_on("agent")
        group.streams[0].put_item(TokenItem(1, 1, 0, (5,), "x", Channel.CONTENT, b"\x01"), now=0.0)
        group.finish()
        answer = await client.read_answer()
        assert (answer.status, b'"message":"Internal server error"' in answer.body) == (500, True)
        await group.wait_left()
