"""A balancer that does what a test says: it greets agents, keeps what they send, and sends what it is told to."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from aiohttp import WSMsgType, web

from shared import wire
from shared.agent_status import AgentStatus
from shared.desired_state import AgentDesiredState
from shared.messages_from_agent import (
    Hello,
    MemberEnd,
    MessageFromAgent,
    Refused,
    StatusUpdate,
    TokenFrame,
    TokenItem,
)
from shared.messages_to_agent import Generate, MessageToAgent, SetState, Welcome

DEADLINE_SECONDS = 20.0


@dataclass(eq=False)
class AgentConnection:
    """One link of an agent, from its greeting to its end."""

    socket: web.WebSocketResponse
    authorization: str | None
    hello: Hello
    received: list[MessageFromAgent] = field(default_factory=list)
    pings: int = 0
    close_code: int | None = None
    is_over: bool = False
    transport: asyncio.Transport | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def status(self) -> AgentStatus:
        """The newest snapshot."""
        updates = [message.status for message in self.received if isinstance(message, StatusUpdate)]
        return max([self.hello.status, *updates], key=lambda status: status.status_version)

    async def send(self, message: MessageToAgent) -> None:
        await self.socket.send_bytes(wire.encode_to_agent(message))

    async def set_state(self, revision: int, state: AgentDesiredState) -> None:
        await self.send(SetState(revision=revision, state=state))

    async def wait_until(self, condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
        """Until the condition holds; looked at after each message. Fails the test with what was received."""
        try:
            async with asyncio.timeout(seconds), self.changed:
                await self.changed.wait_for(condition)
        except TimeoutError:
            raise AssertionError(f"did not come true; last messages: {self.received[-10:]}") from None

    async def wait_status(self, condition: Callable[[AgentStatus], bool]) -> AgentStatus:
        await self.wait_until(lambda: condition(self.status))
        return self.status

    async def wait_over(self) -> None:
        await self.wait_until(lambda: self.is_over)

    # What became of members

    def of_member(self, member: int) -> Iterator[MessageFromAgent | TokenItem | MemberEnd]:
        """Everything about one member, in order."""
        for message in self.received:
            if isinstance(message, TokenFrame):
                yield from (item for item in message.items if item.member == member)
                yield from (end for end in message.ends if end.member == member)
            elif getattr(message, "member", None) == member:
                yield message

    def tokens_of(self, member: int) -> list[int]:
        return [token for one in self.of_member(member) if isinstance(one, TokenItem) for token in one.token_ids]

    def text_of(self, member: int) -> str:
        return "".join(one.text for one in self.of_member(member) if isinstance(one, TokenItem))

    def end_of(self, member: int) -> MemberEnd | None:
        ends = [one for one in self.of_member(member) if isinstance(one, MemberEnd)]
        assert len(ends) <= 1, f"member {member} ended twice: {ends}"
        return ends[0] if ends else None

    async def wait_end(self, member: int) -> MemberEnd:
        await self.wait_until(lambda: self.end_of(member) is not None)
        end = self.end_of(member)
        assert end is not None
        return end

    async def wait_refused(self, member: int) -> Refused:
        def refusals() -> list[Refused]:
            return [one for one in self.of_member(member) if isinstance(one, Refused)]

        await self.wait_until(lambda: bool(refusals()))
        return refusals()[0]


class ScriptedBalancer:
    """Serves the agents' socket on a free port of the loopback."""

    def __init__(self, heartbeat_interval_ms: int = 5000, balancer_id: str = "scripted") -> None:
        self.welcome = Welcome(
            balancer_id=balancer_id, heartbeat_interval_ms=heartbeat_interval_ms, balancer_addresses=[]
        )
        self.connections: list[AgentConnection] = []
        self.greeting: bytes | None = None  # sent instead of the welcome, then the link is closed
        self.status_code: int | None = None  # answered instead of opening the socket
        self.answers_pings = True
        self.port = 0
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> "ScriptedBalancer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; on the port of the time before, if there was one."""
        app = web.Application()
        app.router.add_get("/api/v1/agent_socket/{agent_id}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close every link and stop listening."""
        for connection in self.connections:
            if not connection.is_over:
                await connection.socket.close(code=1001)
        if self._runner is not None:
            await self._runner.cleanup()

    async def wait_connection(self, number: int = 1) -> AgentConnection:
        """The `number`-th link since the start."""
        async with asyncio.timeout(DEADLINE_SECONDS), self._changed:
            await self._changed.wait_for(lambda: len(self.connections) >= number)
        return self.connections[number - 1]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.status_code is not None:
            return web.Response(status=self.status_code)
        socket = web.WebSocketResponse(
            compress=False, max_msg_size=wire.MAX_MESSAGE_BYTES, autoping=False, heartbeat=None
        )
        await socket.prepare(request)
        first = await socket.receive()
        if first.type is not WSMsgType.BINARY:
            return socket
        connection = AgentConnection(socket, request.headers.get("Authorization"), wire.decode_hello(first.data))
        connection.transport = cast(asyncio.Transport, request.transport)
        await socket.send_bytes(self.greeting or wire.encode_welcome(self.welcome))
        self.connections.append(connection)
        async with self._changed:
            self._changed.notify_all()
        await self._read(connection)
        return socket

    async def _read(self, connection: AgentConnection) -> None:
        try:
            async for message in connection.socket:
                if message.type is WSMsgType.BINARY:
                    connection.received.append(wire.decode_from_agent(message.data))
                elif message.type is WSMsgType.PING:
                    connection.pings += 1
                    if self.answers_pings:
                        await connection.socket.pong(message.data)
                async with connection.changed:
                    connection.changed.notify_all()
        except ConnectionError:
            pass
        finally:
            connection.close_code = connection.socket.close_code
            connection.is_over = True
            async with connection.changed:
                connection.changed.notify_all()


def generate(member: int, prompt: str, max_tokens: int = 8, *, attempt: int = 0, seed: int = 1) -> Generate:
    """A request for one member."""
    return Generate(
        member=member,
        attempt=attempt,
        request_id=f"request-{member}",
        raw_prompt=prompt,
        max_tokens=max_tokens,
        seed=seed,
    )
