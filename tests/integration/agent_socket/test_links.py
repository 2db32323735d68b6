"""Greetings, heartbeats, frames that break the protocol, and the end: what keeps a link and what closes it."""

import asyncio
import logging

import aiohttp
import msgpack
import pytest
from aiohttp import WSMsgType

from shared import wire
from shared.messages_from_agent import Hello
from shared.version import PROTOCOL_VERSION
from shared.wire_errors import WireError
from tests.support.listening_board import DEADLINE_SECONDS, ListeningBoard, all_of, listening_board, text_of
from tests.support.scripted_agent import dial, scripted_agent
from tests.support.switchboard_driver import request, status


async def test_a_second_link_of_the_same_agent_replaces_the_first(served: ListeningBoard) -> None:
    async with scripted_agent(served.url, "same") as old:
        opened = served.board.open_group(request())
        await old.wait_work()
        async with scripted_agent(served.url, "same") as new:
            assert await old.wait_over() == 1008
            await new.serve(await new.wait_work(), "new")
            assert text_of(await all_of(opened.streams[0])) == "new"
            await served.wait_agents(1)


class TestHeartbeats:
    async def test_an_agent_that_answers_pings_stays(self) -> None:
        async with listening_board(heartbeat_interval_seconds=0.2) as served, scripted_agent(served.url) as agent:
            await served.wait_agents(1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await agent._is_over.wait()
            assert len(served.board.fleet().agents) == 1

    async def test_a_silent_agent_is_lost_after_two_intervals_and_its_work_goes_elsewhere(self) -> None:
        async with listening_board(heartbeat_interval_seconds=0.2) as served:
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

    async def test_the_agents_own_pings_are_answered(self, served: ListeningBoard) -> None:
        async with dial(served.url, "a") as socket:
            await socket.send_bytes(wire.encode_hello(Hello(agent_id="a", name=None, status=status())))
            await socket.receive()
            await socket.ping(b"are you there")
            answer = await receive(socket)
            assert (answer.type, answer.data) == (WSMsgType.PONG, b"are you there")


class TestAGreeting:
    async def test_of_another_protocol_version_is_answered_with_ours_and_both_are_logged(
        self, served: ListeningBoard, caplog: pytest.LogCaptureFixture
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
    async def test_that_is_none_closes_the_link(self, served: ListeningBoard, frame: bytes, code: int) -> None:
        async with dial(served.url, "a") as socket:
            await socket.send_bytes(frame)
            assert (await receive(socket)).data == code
        assert served.board.fleet().agents == ()
        assert served.socket.counters.links_refused == 1

    async def test_as_text_closes_the_link(self, served: ListeningBoard) -> None:
        async with dial(served.url, "a") as socket:
            await socket.send_str("hello")
            assert (await receive(socket)).data == 1002

    async def test_that_never_comes_closes_the_link(self) -> None:
        async with listening_board(hello_timeout_seconds=0.05) as served, dial(served.url, "a") as socket:
            assert (await receive(socket)).data == 1008

    async def test_without_the_token_is_refused_before_the_handshake(self) -> None:
        async with listening_board(token="secret") as served:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with dial(served.url, "a", token="wrong"):
                    pass
            assert refused.value.status == 401
            async with scripted_agent(served.url, token="secret"):
                await served.wait_agents(1)

    async def test_beyond_the_number_of_links_is_refused(self) -> None:
        async with listening_board(max_links=1) as served, scripted_agent(served.url, "a"):
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
        self, served: ListeningBoard, frame: bytes, code: int
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

    async def test_of_text_closes_with_1003(self, served: ListeningBoard) -> None:
        async with scripted_agent(served.url) as agent:
            await agent.socket.send_str("hello")
            assert await agent.wait_over() == 1003


async def test_a_link_that_takes_nothing_is_dropped_and_others_do_not_notice() -> None:
    async with listening_board(heartbeat_interval_seconds=0.3, max_outgoing_bytes=3_000_000) as served:
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
    async def test_every_link_is_closed_with_1001_after_what_was_queued(self, served: ListeningBoard) -> None:
        async with scripted_agent(served.url, "a") as a, scripted_agent(served.url, "b") as b:
            await served.wait_agents(2)
            served.board.open_group(request())
            await served.socket.close_all()
            assert [await agent.wait_over() for agent in (a, b)] == [1001, 1001]
            assert sum(len(agent.heard) for agent in (a, b)) == 1
            with pytest.raises(aiohttp.WSServerHandshakeError):
                async with dial(served.url, "c"):
                    pass

    async def test_an_agent_that_does_not_answer_the_close_holds_nobody_up(self, served: ListeningBoard) -> None:
        async with dial(served.url, "mute") as mute:
            await mute.send_bytes(wire.encode_hello(Hello(agent_id="mute", name=None, status=status())))
            await served.wait_agents(1)
            async with asyncio.timeout(DEADLINE_SECONDS):
                await served.socket.close_all()
            assert served.board.fleet().agents == ()


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
