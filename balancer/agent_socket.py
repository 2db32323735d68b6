"""The websocket that agents dial: greeting, heartbeats, one reader and one writer per link. The balancer's only
user of the codec.

Rules: the reader never writes and never waits for anything but the next frame; all that goes out goes through the
link's queue. A frame that breaks the protocol closes its link with the right code and hurts nobody else. However a
link ends, `agent_lost` is called at once, before anything is awaited.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from balancer.agent_link import DEFAULT_MAX_OUTGOING_BYTES, AgentLink, LinkParts
from balancer.link_tasks import end, watch, write
from balancer.link_traffic import LinkTraffic
from balancer.linked_agents import LinkIdentity
from balancer.switchboard import Switchboard
from shared import wire
from shared.identifiers import AgentId
from shared.messages_from_agent import Hello
from shared.messages_to_agent import MessageToAgent, Welcome
from shared.wire_errors import ProtocolVersionMismatch, WireError

UNSUPPORTED_DATA = WSCloseCode.UNSUPPORTED_DATA  # a text frame: 1003, RFC 6455 7.4.1

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentSocketSettings:
    """`balancer_addresses` are the other balancers of the fleet, which the agent is to dial as well."""

    balancer_id: str
    heartbeat_interval_seconds: float = 5.0
    hello_timeout_seconds: float = 10.0
    close_timeout_seconds: float = 2.0
    max_outgoing_bytes: int = DEFAULT_MAX_OUTGOING_BYTES
    max_links: int = 4096
    balancer_addresses: tuple[str, ...] = ()


@dataclass(slots=True)
class SocketCounters:
    """Totals since the start."""

    links_opened: int = 0
    links_refused: int = 0
    bad_frames: int = 0


@dataclass(slots=True)
class AgentSocket:
    """`handle` serves GET /api/v1/agent_socket/{agent_id}; `authorize` says whether a request shows the token."""

    switchboard: Switchboard
    settings: AgentSocketSettings
    clock: Callable[[], float]
    authorize: Callable[[web.Request], bool]
    traffic: LinkTraffic = field(default_factory=LinkTraffic)
    counters: SocketCounters = field(default_factory=SocketCounters)
    _links: dict[AgentLink, None] = field(default_factory=dict)
    _last_left: asyncio.Event = field(default_factory=asyncio.Event)
    _is_closing: bool = False
    _handlers: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One link, from the handshake to its end. Cancelled when the connection breaks: that is a loss like any."""
        if not self.authorize(request):
            return web.Response(status=401, text="this balancer wants the agent token")
        if self._is_closing or self._handlers >= self.settings.max_links:
            self.counters.links_refused += 1
            return web.Response(status=503, text="this balancer takes no more agents now")
        self._handlers += 1
        try:
            return await self._open(request)
        finally:
            self._handlers -= 1
            if self._handlers == 0:
                self._last_left.set()

    async def close_all(self) -> None:
        """Shutdown: what is queued goes out, then every link closes with 1001; bounded by the close timeout."""
        self._is_closing = True
        for link in list(self._links):
            link.close(WSCloseCode.GOING_AWAY, "balancer is shutting down")
        if self._handlers:
            self._last_left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * self.settings.close_timeout_seconds):
                    await self._last_left.wait()

    # The greeting

    async def _open(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(
            compress=False,  # token frames are tiny: deflate would cost both ends more than it saves
            max_msg_size=wire.MAX_MESSAGE_BYTES,
            autoping=False,  # pongs have to be seen: they are how a silent agent is told from an idle one
            timeout=self.settings.close_timeout_seconds,
        )
        await socket.prepare(request)
        try:
            hello, software_version = await self._receive_hello(socket, request.match_info["agent_id"])
        except (WireError, TimeoutError) as error:
            self.counters.links_refused += 1
            await self._refuse(socket, request, error)
            return socket
        self.counters.links_opened += 1
        identity = LinkIdentity(AgentId(hello.agent_id), hello.name, software_version, request.remote or "unknown")
        limit = self.settings.max_outgoing_bytes
        link = AgentLink(LinkParts(identity, _encode, _abort_of(request), self.clock, limit, self.traffic))
        await self._serve(socket, link, hello)
        return socket

    async def _receive_hello(self, socket: web.WebSocketResponse, agent_id: str) -> tuple[Hello, str]:
        """Raises TimeoutError, or WireError for anything but a good greeting of the agent that the path names."""
        async with asyncio.timeout(self.settings.hello_timeout_seconds):
            while (message := await socket.receive()).type in (WSMsgType.PING, WSMsgType.PONG):
                pass
        if message.type is not WSMsgType.BINARY:
            raise WireError("the first message is not a greeting", WSCloseCode.PROTOCOL_ERROR)
        self.traffic.received_bytes += len(message.data)
        hello = wire.decode_hello(message.data)
        if hello.agent_id != agent_id:
            raise WireError("the greeting names another agent than the address", WSCloseCode.POLICY_VIOLATION)
        return hello, wire.greeting_software_version(message.data)

    async def _refuse(self, socket: web.WebSocketResponse, request: web.Request, error: Exception) -> None:
        """Say why, to the log and to the agent, and close."""
        code = error.close_code if isinstance(error, WireError) else WSCloseCode.POLICY_VIOLATION
        reason = str(error) or "no greeting came in time"
        logger.warning("agent at %s was refused: %s", request.remote, reason)
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(self.settings.close_timeout_seconds):
                if isinstance(error, ProtocolVersionMismatch):
                    await socket.send_bytes(wire.encode_version_refusal())
                await socket.close(code=code, message=_reason(reason))

    # The link

    async def _serve(self, socket: web.WebSocketResponse, link: AgentLink, hello: Hello) -> None:
        identity = link.identity
        link.send_frame(
            wire.encode_welcome(
                Welcome(
                    balancer_id=self.settings.balancer_id,
                    heartbeat_interval_ms=round(1000 * self.settings.heartbeat_interval_seconds),
                    balancer_addresses=list(self.settings.balancer_addresses),
                )
            )
        )
        self._links[link] = None
        logger.info("agent %s (%s) joined from %s", identity.agent_id, identity.name, identity.remote_address)
        try:
            self.switchboard.agent_joined(link, hello.status)
            async with asyncio.TaskGroup() as tasks:
                writer = tasks.create_task(write(socket, link), name=f"agent link writer {identity.agent_id}")
                heartbeat = tasks.create_task(
                    watch(link, self.clock, self.settings.heartbeat_interval_seconds),
                    name=f"agent link heartbeat {identity.agent_id}",
                )
                await self._read(socket, link)
                self.switchboard.agent_lost(link)
                heartbeat.cancel()
                await end(writer, link, self.settings.close_timeout_seconds)
        finally:
            self.switchboard.agent_lost(link)
            del self._links[link]
            logger.info("agent %s (%s) left: %s", identity.agent_id, identity.name, link.problem or "link closed")

    async def _read(self, socket: web.WebSocketResponse, link: AgentLink) -> None:
        """Until the link ends or breaks the protocol. Cancelled here: the frames not yet read are lost with it."""
        while True:
            message = await socket.receive()
            link.heard(len(message.data) if message.type is WSMsgType.BINARY else 0)
            try:
                if not self._take(message, link):
                    return
            except WireError as error:
                self._break(link, error.close_code, str(error))
                return
            except Exception:
                logger.exception("agent %s: a message could not be handled", link.identity.agent_id)
                link.close(WSCloseCode.INTERNAL_ERROR, "the balancer could not handle a message")
                return

    def _take(self, message: WSMessage, link: AgentLink) -> bool:
        """Handle one frame; False when it was the last. Raises WireError."""
        if message.type is WSMsgType.BINARY:
            self.switchboard.agent_message(link, wire.decode_from_agent(message.data))
        elif message.type is WSMsgType.PING:
            link.pong(message.data)
        elif message.type is WSMsgType.PONG:
            link.ponged(message.data)
        elif message.type is WSMsgType.TEXT:
            raise WireError("text frames are not part of this protocol", UNSUPPORTED_DATA)
        elif message.type is WSMsgType.ERROR:
            # aiohttp refused the frame and has closed the socket with the right code (1002, 1007, 1009).
            self._break(link, WSCloseCode.PROTOCOL_ERROR, str(message.data))
            return False
        else:
            return False
        return True

    def _break(self, link: AgentLink, code: int, reason: str) -> None:
        self.counters.bad_frames += 1
        logger.warning("agent %s broke the protocol: %s", link.identity.agent_id, reason)
        link.problem = link.problem or f"it broke the protocol: {reason}"
        link.close(code, reason)


def _encode(message: MessageToAgent) -> bytes | None:
    try:
        return wire.encode_to_agent(message)
    except WireError:  # encoding raises it for one reason: the size
        return None


def _abort_of(request: web.Request) -> Callable[[], None]:
    def abort() -> None:
        if request.transport is not None:
            request.transport.abort()

    return abort


def _reason(text: str) -> bytes:
    """RFC 6455, 5.5: a control frame holds 125 bytes, two of them are the code."""
    return text.encode()[:123].decode(errors="ignore").encode()
