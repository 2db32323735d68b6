"""One connection to a balancer: greeting, heartbeats, one reader and one writer. The agent's only user of the codec.

Heartbeats go both ways: this side pings at the interval that the balancer named, and a connection on which nothing
was heard for two intervals is lost. One that takes no bytes for two intervals, or for which too much waits, is
dropped: its balancer runs its members elsewhere.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
from aiohttp import WSCloseCode, WSMsgType

from agent.outgoing_queue import OutgoingQueue
from shared import wire
from shared.messages_from_agent import Hello, MessageFromAgent
from shared.messages_to_agent import MessageToAgent, Welcome
from shared.wire_errors import WireError

GREETING_TIMEOUT_SECONDS = 10.0
CLOSE_TIMEOUT_SECONDS = 2.0
SILENT_INTERVALS = 2
MAX_REASON_BYTES = 123  # RFC 6455, 5.5: a control frame holds 125 bytes, two of them are the code

LINK_FAILURES = (WireError, aiohttp.ClientError, OSError)


class LinkLost(Exception):
    """The connection to the balancer ended; `str()` says why."""


async def open_connection(
    session: aiohttp.ClientSession, url: str, token: str | None, tls: ssl.SSLContext | None
) -> "BalancerLink":
    """Open the websocket. Raises TimeoutError, aiohttp.ClientError or OSError."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with asyncio.timeout(GREETING_TIMEOUT_SECONDS):
        socket = await session.ws_connect(
            url,
            headers=headers,
            ssl=True if tls is None else tls,
            compress=0,
            max_msg_size=wire.MAX_MESSAGE_BYTES,
            autoping=False,  # pongs have to be seen: they are how a silent link is told from an idle one
            autoclose=False,
        )
    return BalancerLink(socket)


class BalancerLink:
    """One websocket: everything goes out through one writer, from one bounded queue."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._queue = OutgoingQueue()
        self._wake = asyncio.Event()
        self._written = asyncio.Event()
        self._pong: bytes | None = None
        self._interval_seconds = GREETING_TIMEOUT_SECONDS
        self._balancer_id = ""

    def __repr__(self) -> str:
        return f"<BalancerLink to {self._balancer_id or 'nobody yet'}, {self._queue!r}>"

    @property
    def balancer_id(self) -> str:
        """Who is at the other end; empty before the greeting."""
        return self._balancer_id

    async def greet(self, hello: Hello) -> Welcome:
        """Introduce this agent. Raises ProtocolVersionMismatch, WireError, LinkLost or TimeoutError."""
        async with asyncio.timeout(GREETING_TIMEOUT_SECONDS):
            await self._socket.send_bytes(wire.encode_hello(hello))
            while (message := await self._socket.receive()).type in (WSMsgType.PING, WSMsgType.PONG):
                pass
        welcome = wire.decode_welcome(_payload(message))
        self._interval_seconds = welcome.heartbeat_interval_ms / 1000
        self._balancer_id = welcome.balancer_id
        return welcome

    def send(self, message: MessageFromAgent) -> None:
        """Queue a message for the writer; never blocks."""
        self._queue.put(message)
        self._written.clear()
        self._wake.set()

    async def serve(self, receive: Callable[[MessageToAgent], None]) -> None:
        """Read and write until the link is lost, which it raises as LinkLost, or as one of LINK_FAILURES."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._write(), name="link writer")
                tasks.create_task(self._read(receive), name="link reader")
                # It waits in the body, not in the group's exit: a group of Python before 3.13 that fails there leaves a
                # cancellation with the task that owns it (`Task.cancelling`), and then the next asyncio.timeout of
                # Python 3.11.2 (Debian 12) ends that task: the agent would never dial again.
                await asyncio.Event().wait()
        except BaseExceptionGroup as group:
            expected, other = group.split((LinkLost, *LINK_FAILURES))
            if other is not None or expected is None:
                raise
            raise expected.exceptions[0] from None

    async def close(self, code: int, reason: str = "") -> None:
        """Write what waits, then the close handshake, each within a bound. Idempotent."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                if not self._queue.is_empty and not self._socket.closed:
                    await self._written.wait()
        except TimeoutError:
            pass
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self._socket.close(code=code, message=reason.encode()[:MAX_REASON_BYTES])
        except (TimeoutError, aiohttp.ClientError, OSError):
            pass

    async def _read(self, receive: Callable[[MessageToAgent], None]) -> None:
        silence_seconds = SILENT_INTERVALS * self._interval_seconds
        while True:
            try:
                async with asyncio.timeout(silence_seconds):
                    message = await self._socket.receive()
            except TimeoutError:
                raise LinkLost(f"nothing was heard for {silence_seconds:.1f} s") from None
            if message.type is WSMsgType.PING:
                self._pong = message.data  # only the newest ping needs its answer (RFC 6455, 5.5.3)
                self._wake.set()
            elif message.type is not WSMsgType.PONG:
                receive(wire.decode_to_agent(_payload(message)))

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        next_ping = loop.time()
        while True:
            self._wake.clear()
            if loop.time() >= next_ping:
                await self._in_time(self._socket.ping())
                next_ping = loop.time() + self._interval_seconds
            if self._pong is not None:
                pong, self._pong = self._pong, None
                await self._in_time(self._socket.pong(pong))
            if self._queue.is_over_bound:
                raise LinkLost("the balancer reads too slowly")
            message = self._queue.take()
            if message is not None:
                await self._in_time(self._socket.send_bytes(wire.encode_from_agent(message)))
                continue
            self._written.set()
            await self._wait_for_more(next_ping)

    async def _wait_for_more(self, until: float) -> None:
        """Until something is to be written, or a ping is due. Cancelled here: nothing is lost."""
        try:
            async with asyncio.timeout_at(until):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _in_time(self, sending: Coroutine[Any, Any, None]) -> None:
        limit_seconds = SILENT_INTERVALS * self._interval_seconds
        try:
            async with asyncio.timeout(limit_seconds):
                await sending
        except TimeoutError:
            raise LinkLost(f"the balancer took no bytes for {limit_seconds:.1f} s") from None


def _payload(message: aiohttp.WSMessage) -> bytes:
    if message.type is WSMsgType.BINARY:
        payload: bytes = message.data
        return payload
    if message.type is WSMsgType.TEXT:
        raise WireError("a text frame on a binary link", WSCloseCode.UNSUPPORTED_DATA)
    detail = message.extra or message.data or ""
    raise LinkLost(f"the balancer closed the link ({message.type.name.lower()} {detail})")
