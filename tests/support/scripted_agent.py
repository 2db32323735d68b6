"""An agent without a model: dials a real balancer's agent socket over loopback and says what a test's script says.

By hand: `work = await agent.wait_work()`, then `accept`, `token`, `end`. Or give it a `play`, which is run for every
member that it is sent. It answers pings unless it is told to play dead, and records all that it hears.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp
from aiohttp import WSMsgType

from shared import wire
from shared.agent_status import AgentStatus
from shared.failures import Failure
from shared.generation import Channel, FinishReason, Usage
from shared.messages_from_agent import (
    Accepted,
    Busy,
    ChatTemplateOverride,
    Hello,
    MemberEnd,
    MessageFromAgent,
    ModelMetadata,
    StatusUpdate,
    TokenFrame,
    TokenItem,
)
from shared.messages_to_agent import (
    Cancel,
    Generate,
    GetChatTemplateOverride,
    GetModelMetadata,
    MessageToAgent,
    SetState,
    Welcome,
)
from tests.support.switchboard_driver import status

DEADLINE_SECONDS = 20.0

M = TypeVar("M", bound=MessageToAgent)
Play = Callable[["ScriptedAgent", Generate], Awaitable[None]]


class ScriptedAgent:
    """One link of one agent; made by `scripted_agent`. `heard` holds every message after the welcome."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, welcome: Welcome, play: Play | None) -> None:
        self.socket = socket
        self.welcome = welcome
        self.heard: list[MessageToAgent] = []
        self.is_playing_dead = False
        self.metadata: dict[str, str] | None = {"general.name": "scripted"}
        self._play = play
        self._news = asyncio.Event()
        self._taken: dict[type, int] = {}
        self._delivered: dict[int, int] = {}
        self._status_version = 1
        self._is_over = asyncio.Event()

    # What it says

    async def say(self, message: MessageFromAgent) -> None:
        await self.socket.send_bytes(wire.encode_from_agent(message))

    async def say_status(self, slots: int, **changes: Any) -> None:
        self._status_version += 1
        new: AgentStatus = status(slots, version=self._status_version, **changes)
        await self.say(StatusUpdate(status=new))

    async def accept(self, work: Generate, prompt_tokens: int = 5) -> None:
        await self.say(Accepted(member=work.member, attempt=work.attempt, prompt_tokens=prompt_tokens))

    async def busy(self, work: Generate) -> None:
        await self.say(Busy(member=work.member, attempt=work.attempt))

    async def token(self, work: Generate, text: str) -> None:
        """The member's next token, in a frame of its own."""
        index = self._delivered.get(work.member, 0)
        self._delivered[work.member] = index + 1
        item = TokenItem(work.member, work.attempt, index, (index + 1,), text, Channel.CONTENT)
        await self.say(TokenFrame((item,), ()))

    async def end(self, work: Generate, reason: FinishReason = FinishReason.STOP) -> None:
        usage = Usage(prompt_tokens=5, content_tokens=self._delivered.get(work.member, 0))
        await self.say(TokenFrame((), (MemberEnd(work.member, work.attempt, reason, usage, None),)))

    async def fail(self, work: Generate, failure: Failure) -> None:
        await self.say(TokenFrame((), (MemberEnd(work.member, work.attempt, None, Usage(), failure),)))

    async def serve(self, work: Generate, *texts: str) -> None:
        """A whole answer."""
        await self.accept(work)
        for text in texts:
            await self.token(work, text)
        await self.end(work)

    # How it goes

    async def close(self, code: int = 1000) -> None:
        await self.socket.close(code=code)

    def vanish(self) -> None:
        """The connection breaks without a word."""
        connection = self.socket._response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.abort()

    async def wait_over(self) -> int | None:
        """Until the balancer has ended the link; returns the close code."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._is_over.wait()
        return self.socket.close_code

    # What it hears

    async def wait_heard(self, kind: type[M]) -> M:
        """The next message of a kind, each once."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                self._news.clear()
                found = [message for message in self.heard if isinstance(message, kind)]
                taken = self._taken.get(kind, 0)
                if len(found) > taken:
                    self._taken[kind] = taken + 1
                    return found[taken]
                await self._news.wait()

    async def wait_work(self) -> Generate:
        return await self.wait_heard(Generate)

    async def wait_cancel(self) -> Cancel:
        return await self.wait_heard(Cancel)

    async def wait_state(self) -> SetState:
        return await self.wait_heard(SetState)

    async def listen(self, tasks: asyncio.TaskGroup) -> None:
        """Read until the link is over; run by `scripted_agent`."""
        try:
            while True:
                message = await self.socket.receive()
                if message.type is WSMsgType.PING and not self.is_playing_dead:
                    await self.socket.pong(message.data)
                elif message.type is WSMsgType.BINARY:
                    await self._take(wire.decode_to_agent(message.data), tasks)
                elif message.type not in (WSMsgType.PING, WSMsgType.PONG):
                    return
        except ConnectionError:
            return
        finally:
            self._is_over.set()
            self._news.set()

    async def _take(self, message: MessageToAgent, tasks: asyncio.TaskGroup) -> None:
        self.heard.append(message)
        self._news.set()
        if isinstance(message, Generate) and self._play is not None:
            tasks.create_task(_until_closed(self._play(self, message)), name=f"scripted member {message.member}")
        elif isinstance(message, GetModelMetadata):
            await self.say(ModelMetadata(query=message.query, metadata=self.metadata))
        elif isinstance(message, GetChatTemplateOverride):
            await self.say(ChatTemplateOverride(query=message.query, content=None))


async def _until_closed(play: Awaitable[None]) -> None:
    try:
        await play
    except ConnectionError:
        return


@asynccontextmanager
async def dial(
    management_url: str, agent_id: str, *, token: str | None = None
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Only the websocket, before any greeting."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{management_url}/api/v1/agent_socket/{agent_id}"
    async with aiohttp.ClientSession() as session:
        async with asyncio.timeout(DEADLINE_SECONDS):
            socket = await session.ws_connect(
                url, headers=headers, autoping=False, compress=0, max_msg_size=wire.MAX_MESSAGE_BYTES
            )
        try:
            yield socket
        finally:
            await socket.close()


@asynccontextmanager
async def scripted_agent(
    management_url: str,
    agent_id: str = "agent-1",
    *,
    slots: int = 1,
    name: str | None = "scripted",
    token: str | None = None,
    play: Play | None = None,
    **changes: Any,
) -> AsyncIterator[ScriptedAgent]:
    """An agent that has joined. `changes` replace fields of its first status. Leaves when the block ends."""
    async with dial(management_url, agent_id, token=token) as socket:
        hello = Hello(agent_id=agent_id, name=name, status=status(slots, **changes))
        await socket.send_bytes(wire.encode_hello(hello))
        async with asyncio.timeout(DEADLINE_SECONDS):
            first = await socket.receive()
        agent = ScriptedAgent(socket, wire.decode_welcome(first.data), play)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(agent.listen(tasks), name=f"scripted agent {agent_id}")
            try:
                yield agent
            finally:
                await socket.close()
