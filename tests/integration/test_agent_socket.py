"""Agents' links over loopback, through aiohttp's runner as production starts it (its test server is kinder)."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import msgpack
import pytest
from aiohttp import WSMsgType, web

from balancer.agent_socket import AgentSocket, AgentSocketSettings
from balancer.core.machine import Machine
from balancer.core.state import MachineSettings
from balancer.response_stream import Ended, ResponseStream, StreamEvent, Tokens
from balancer.switchboard import Switchboard
from balancer.switchboard_tables import SwitchboardSettings
from shared import wire
from shared.desired_state import DEFAULT_DESIRED_STATE
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason
from shared.messages_from_agent import Hello
from shared.version import PROTOCOL_VERSION, software_version
from shared.wire_errors import WireError
from tests.support.scripted_agent import ScriptedAgent, dial, scripted_agent
from tests.support.switchboard_driver import request, status

DEADLINE_SECONDS = 20.0
STATE = DEFAULT_DESIRED_STATE.for_agents()


@dataclass
class Balancer:
    """The agents' half of a balancer, really listening."""

    board: Switchboard
    socket: AgentSocket
    url: str

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Until something that the switchboard shows is so."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not holds():
                await self.board.changes.wait_changed(self.board.changes.version)

    async def wait_agents(self, count: int) -> None:
        await self.wait_until(lambda: len(self.board.fleet().agents) == count)


@asynccontextmanager
async def balancer(
    *, handler_cancellation: bool = True, token: str | None = None, **settings: object
) -> AsyncIterator[Balancer]:
    machine = Machine(MachineSettings(checks_every_event=True))
    board = Switchboard(machine, time.monotonic, SwitchboardSettings())

    def authorize(one: web.Request) -> bool:
        return token is None or one.headers.get("Authorization") == f"Bearer {token}"

    socket = AgentSocket(
        board,
        AgentSocketSettings("balancer-1", **{"close_timeout_seconds": 1.0, **settings}),  # type: ignore[arg-type]
        time.monotonic,
        authorize,
    )
    app = web.Application()
    app.router.add_get("/api/v1/agent_socket/{agent_id}", socket.handle)
    runner = web.AppRunner(app, handler_cancellation=handler_cancellation, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    driver = asyncio.create_task(board.run())
    try:
        yield Balancer(board, socket, f"http://127.0.0.1:{port}")
        board.check_invariants()
    finally:
        driver.cancel()
        await socket.close_all()
        await runner.cleanup()


@pytest.fixture(params=[True, False], ids=["cancelling handlers", "not cancelling handlers"])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Balancer]:
    """The loss of a link has to be noticed with aiohttp's `handler_cancellation` on and off."""
    async with balancer(handler_cancellation=request.param) as one:
        yield one


async def all_of(stream: ResponseStream) -> list[StreamEvent]:
    events: list[StreamEvent] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not events or not isinstance(events[-1], Ended):
            events += await stream.wait_events()
    return events


def text_of(events: list[StreamEvent]) -> str:
    return "".join(event.item.text for event in events if isinstance(event, Tokens))


def end_of(events: list[StreamEvent]) -> Ended:
    assert isinstance(events[-1], Ended)
    return events[-1]


async def test_an_agent_joins_gets_the_state_and_answers_a_request(served: Balancer) -> None:
    served.board.set_desired_state(4, STATE)
    async with scripted_agent(served.url, name="first") as agent:
        assert (agent.welcome.balancer_id, agent.welcome.heartbeat_interval_ms) == ("balancer-1", 5000)
        assert (await agent.wait_state()).revision == 4
        opened = served.board.open_group(request())
        await agent.serve(await agent.wait_work(), "Grüße ", "👋")
        events = await all_of(opened.streams[0])
        assert text_of(events) == "Grüße 👋"
        assert end_of(events).usage.content_tokens == 2
        assert end_of(events).agent_name == "first"
        (shown,) = served.board.fleet().agents
        assert (shown.name, shown.software_version) == ("first", software_version())
    await served.wait_agents(0)


async def test_a_request_from_before_any_agent_is_answered_when_one_joins(served: Balancer) -> None:
    opened = served.board.open_group(request())

    async def answer(agent: ScriptedAgent, work: object) -> None:
        await agent.serve(work, "late")  # type: ignore[arg-type]

    async with scripted_agent(served.url, play=answer):
        assert text_of(await all_of(opened.streams[0])) == "late"


async def test_a_client_that_leaves_is_cancelled_on_the_agent(served: Balancer) -> None:
    async with scripted_agent(served.url) as agent:
        opened = served.board.open_group(request())
        work = await agent.wait_work()
        await agent.token(work, "x")
        opened.leave()
        assert (await agent.wait_cancel()).member == work.member
        assert served.board.statistics().slots_processing == 1
        await agent.end(work, FinishReason.CANCELLED)
        await served.wait_until(lambda: served.board.statistics().slots_processing == 0)


@pytest.mark.parametrize("how", ["vanish", "close"])
async def test_when_an_agent_goes_what_delivered_nothing_runs_elsewhere_and_the_rest_fails(
    served: Balancer, how: str
) -> None:
    async with scripted_agent(served.url, "one", slots=2) as first:
        half, fresh = (served.board.open_group(request(request_id=name)) for name in ("half", "fresh"))
        work = await first.wait_work()
        await first.token(work, "only half")
        await half.streams[0].wait_events()
        if how == "close":
            await first.close()
        else:
            first.vanish()
        assert end_of(await all_of(half.streams[0])).failure is not None
        async with scripted_agent(served.url, "two") as second:
            await second.serve(await second.wait_work(), "whole")
            assert text_of(await all_of(fresh.streams[0])) == "whole"


async def test_a_second_link_of_the_same_agent_replaces_the_first(served: Balancer) -> None:
    async with scripted_agent(served.url, "same") as old:
        opened = served.board.open_group(request())
        await old.wait_work()
        async with scripted_agent(served.url, "same") as new:
            assert await old.wait_over() == 1008
            await new.serve(await new.wait_work(), "new")
            assert text_of(await all_of(opened.streams[0])) == "new"
            await served.wait_agents(1)


async def test_questions_are_answered_over_the_link(served: Balancer) -> None:
    async with scripted_agent(served.url, "a"):
        await served.wait_agents(1)
        assert await served.board.ask_model_metadata("a") == {"general.name": "scripted"}
        assert await served.board.ask_chat_template_override("a") is None


class TestHeartbeats:
    async def test_an_agent_that_answers_pings_stays(self) -> None:
        async with balancer(heartbeat_interval_seconds=0.2) as served, scripted_agent(served.url) as agent:
            await served.wait_agents(1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await agent._is_over.wait()
            assert len(served.board.fleet().agents) == 1

    async def test_a_silent_agent_is_lost_after_two_intervals_and_its_work_goes_elsewhere(self) -> None:
        async with balancer(heartbeat_interval_seconds=0.2) as served:
            async with scripted_agent(served.url, "dead") as dead:
                opened = served.board.open_group(request())
                await dead.wait_work()
                dead.is_playing_dead = True
                await dead.wait_over()
                await served.wait_agents(0)
                assert served.board.requests_buffered == 1
                async with scripted_agent(served.url, "alive") as alive:
                    await alive.serve(await alive.wait_work(), "ok")
                    assert text_of(await all_of(opened.streams[0])) == "ok"

    async def test_the_agents_own_pings_are_answered(self, served: Balancer) -> None:
        async with dial(served.url, "a") as socket:
            await socket.send_bytes(wire.encode_hello(Hello(agent_id="a", name=None, status=status())))
            await socket.receive()
            await socket.ping(b"are you there")
            answer = await receive(socket)
            assert (answer.type, answer.data) == (WSMsgType.PONG, b"are you there")


class TestAGreeting:
    async def test_of_another_protocol_version_is_answered_with_ours_and_both_are_logged(
        self, served: Balancer, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING):
            async with dial(served.url, "a") as socket:
                await socket.send_bytes(greeting(protocol=99, software="9.9.9"))
                answer = await receive(socket)
                with pytest.raises(WireError):  # no welcome, but it names the version: not a mismatch to us
                    wire.decode_welcome(answer.data)
                closed = await receive(socket)
                assert (closed.type, closed.data) == (WSMsgType.CLOSE, 1002)
        assert "99" in caplog.text
        assert f"protocol version {PROTOCOL_VERSION}" in caplog.text
        assert "9.9.9" in caplog.text
        assert "upgrade" in caplog.text

    @pytest.mark.parametrize(
        ("frame", "code"),
        [
            (b"", 1002),
            (b"\xff" * 40, 1009),
            (b"S\x03\x00\x00\x00abc", 1002),
            (wire.encode_hello(Hello(agent_id="someone else", name=None, status=status())), 1008),
        ],
    )
    async def test_that_is_none_closes_the_link(self, served: Balancer, frame: bytes, code: int) -> None:
        async with dial(served.url, "a") as socket:
            await socket.send_bytes(frame)
            assert (await receive(socket)).data == code
        assert served.board.fleet().agents == ()
        assert served.socket.counters.links_refused == 1

    async def test_as_text_closes_the_link(self, served: Balancer) -> None:
        async with dial(served.url, "a") as socket:
            await socket.send_str("hello")
            assert (await receive(socket)).data == 1002

    async def test_that_never_comes_closes_the_link(self) -> None:
        async with balancer(hello_timeout_seconds=0.05) as served, dial(served.url, "a") as socket:
            assert (await receive(socket)).data == 1008

    async def test_without_the_token_is_refused_before_the_handshake(self) -> None:
        async with balancer(token="secret") as served:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with dial(served.url, "a", token="wrong"):
                    pass
            assert refused.value.status == 401
            async with scripted_agent(served.url, token="secret"):
                await served.wait_agents(1)

    async def test_beyond_the_number_of_links_is_refused(self) -> None:
        async with balancer(max_links=1) as served, scripted_agent(served.url, "a"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with dial(served.url, "b"):
                    pass
            assert refused.value.status == 503


class TestABadFrame:
    @pytest.mark.parametrize(
        ("frame", "code"),
        [
            (b"\x7f\x01\x00\x00\x00\xc0", 1002),  # unknown kind
            (b"\x01\x01\x00\x00\x00\xc1", 1002),  # not msgpack
            (b"\x01\x01\x00\x00\x00\x07", 1008),  # a token frame that is a number
            (b"\x22\x02\x00\x00\x00\x81\xa1", 1002),  # ends early
        ],
    )
    async def test_closes_its_link_with_the_right_code_and_hurts_nobody_else(
        self, served: Balancer, frame: bytes, code: int
    ) -> None:
        async with scripted_agent(served.url, "good") as good, scripted_agent(served.url, "bad", slots=0) as bad:
            opened = served.board.open_group(request())
            work = await good.wait_work()
            await bad.socket.send_bytes(frame)
            assert await bad.wait_over() == code
            await served.wait_agents(1)
            await good.serve(work, "unhurt")
            assert text_of(await all_of(opened.streams[0])) == "unhurt"
        assert served.socket.counters.bad_frames == 1

    async def test_of_text_closes_with_1003(self, served: Balancer) -> None:
        async with scripted_agent(served.url) as agent:
            await agent.socket.send_str("hello")
            assert await agent.wait_over() == 1003


async def test_a_link_that_takes_nothing_is_dropped_and_others_do_not_notice() -> None:
    async with balancer(heartbeat_interval_seconds=0.3, max_outgoing_bytes=3_000_000) as served:
        async with scripted_agent(served.url, "good", slots=1) as good, dial(served.url, "stuck") as stuck:
            first = served.board.open_group(request(request_id="first"))
            work = await good.wait_work()
            # Greets, and then reads nothing: neither messages nor pings.
            await stuck.send_bytes(wire.encode_hello(Hello(agent_id="stuck", name=None, status=status(200))))
            await served.wait_agents(2)
            prompt = "x" * 1_000_000
            waiting = [served.board.open_group(request(raw_prompt=prompt)) for _ in range(20)]
            await served.wait_agents(1)
            await good.serve(work, "unhurt")
            assert text_of(await all_of(first.streams[0])) == "unhurt"
            for opened in waiting:
                opened.leave()


class TestShutdown:
    async def test_every_link_is_closed_with_1001_after_what_was_queued(self, served: Balancer) -> None:
        async with scripted_agent(served.url, "a") as a, scripted_agent(served.url, "b") as b:
            await served.wait_agents(2)
            served.board.open_group(request())
            await served.socket.close_all()
            assert [await agent.wait_over() for agent in (a, b)] == [1001, 1001]
            assert sum(len(agent.heard) for agent in (a, b)) == 1
            with pytest.raises(aiohttp.WSServerHandshakeError):
                async with dial(served.url, "c"):
                    pass

    async def test_an_agent_that_does_not_answer_the_close_holds_nobody_up(self, served: Balancer) -> None:
        async with dial(served.url, "mute") as mute:
            await mute.send_bytes(wire.encode_hello(Hello(agent_id="mute", name=None, status=status())))
            await served.wait_agents(1)
            async with asyncio.timeout(DEADLINE_SECONDS):
                await served.socket.close_all()
            assert served.board.fleet().agents == ()


async def test_busy_brings_a_member_back_and_the_engines_failure_is_the_requests(served: Balancer) -> None:
    async with scripted_agent(served.url) as agent:
        opened = served.board.open_group(request())
        work = await agent.wait_work()
        await agent.busy(work)
        await served.wait_until(lambda: served.board.requests_buffered == 1)
        await agent.say_status(1, slots_processing=1)
        again = await agent.wait_work()
        assert (again.member, again.attempt) == (work.member, work.attempt + 1)
        await agent.fail(again, Failure(FailureKind.ENGINE_FAILED, "the engine failed"))
        ended = end_of(await all_of(opened.streams[0]))
        assert ended.failure is not None
        assert ended.failure.kind is FailureKind.ENGINE_FAILED


def greeting(**fields: object) -> bytes:
    """A first message as a peer of another release would send it."""
    structure: bytes = msgpack.packb({"body": None, **fields})
    return b"S" + len(structure).to_bytes(4, "little") + structure


async def receive(socket: aiohttp.ClientWebSocketResponse) -> aiohttp.WSMessage:
    """The next frame; a close is returned as it came."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            message = await socket.receive()
            if message.type is WSMsgType.PING:
                continue
            if message.type in (WSMsgType.CLOSED, WSMsgType.CLOSING):
                return aiohttp.WSMessage(WSMsgType.CLOSE, socket.close_code, None)
            return message
