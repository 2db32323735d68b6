"""One link to an agent: its bounded outgoing queue and its signs of life. Knows neither sockets nor the codec.

Rules: `send` never waits. A link that takes too little for too long is dropped as a whole (`abort`), which its
reader notices and reports; nothing here tells anybody of the loss. Other links notice nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from balancer.link_traffic import LinkTraffic
from balancer.linked_agents import LinkIdentity
from shared.messages_to_agent import MessageToAgent

DEFAULT_MAX_OUTGOING_BYTES = 64 * 1024 * 1024  # a few of the largest messages
MAX_OUTGOING_FRAMES = 65_536

logger = logging.getLogger(__name__)


class OutgoingKind(Enum):
    """What the writer does with an entry."""

    MESSAGE = "message"
    PING = "ping"
    PONG = "pong"
    CLOSE = "close"


class Outgoing(NamedTuple):
    """One entry of the queue. `code` belongs to CLOSE."""

    kind: OutgoingKind
    data: bytes
    code: int = 0


@dataclass(frozen=True, slots=True)
class LinkParts:
    """What a link is made of. `encode` returns None for a message that is larger than any link can carry.

    `abort` drops the connection at once; the link's reader then ends. `traffic` counts for all links together.
    """

    identity: LinkIdentity
    encode: Callable[[MessageToAgent], bytes | None]
    abort: Callable[[], None]
    clock: Callable[[], float]
    max_outgoing_bytes: int = DEFAULT_MAX_OUTGOING_BYTES
    traffic: LinkTraffic = field(default_factory=LinkTraffic)


class AgentLink:
    """See the module. The writer takes entries with `wait_next` and confirms each with `written`."""

    def __init__(self, parts: LinkParts) -> None:
        self.identity = parts.identity
        self.last_heard_at = parts.clock()
        self.problem: str | None = None  # why this side ended the link
        self.is_aborted = False
        self._parts = parts
        self._queue: deque[Outgoing] = deque()
        self._queued_bytes = 0
        self._head_since = self.last_heard_at  # since when the first entry of the queue is the first
        self._wake = asyncio.Event()
        self._pings = 0
        self._ping_left_at: float | None = None  # of the newest ping, until its pong
        self._is_closing = False

    def send(self, message: MessageToAgent) -> bool:
        """Queue a message. False: it is too large for any link, and was not queued."""
        frame = self._parts.encode(message)
        if frame is None:
            return False
        self._put(Outgoing(OutgoingKind.MESSAGE, frame))
        return True

    def has_room_for(self, message_bytes: int) -> bool:
        """Whether work of about this size may be queued: it leaves a quarter of the bound to messages that must go
        out, so that no number of clients with long prompts gets a link dropped. An idle link takes any message."""
        bound = self._parts.max_outgoing_bytes
        return not self._queue or self._queued_bytes + message_bytes <= bound - bound // 4

    def send_frame(self, frame: bytes) -> None:
        """Queue what is encoded already (the first message of a link)."""
        self._put(Outgoing(OutgoingKind.MESSAGE, frame))

    def ping(self) -> None:
        """Ask for a sign of life; one at a time is enough."""
        if not any(entry.kind is OutgoingKind.PING for entry in self._queue):
            self._pings += 1
            self._put(Outgoing(OutgoingKind.PING, b"%d" % self._pings))

    def ping_leaves(self) -> None:
        """The writer hands the newest ping to the connection now."""
        self._ping_left_at = self._parts.clock()

    def ponged(self, data: bytes) -> None:
        """A pong came; that of the newest ping tells how long the way there and back takes."""
        if self._ping_left_at is not None and data == b"%d" % self._pings:
            self._parts.traffic.round_trip.observe(max(0.0, self._parts.clock() - self._ping_left_at))
            self._ping_left_at = None

    def pong(self, data: bytes) -> None:
        """Answer the agent's ping."""
        self._put(Outgoing(OutgoingKind.PONG, data))

    def heard(self, message_bytes: int = 0) -> None:
        """Something came from the agent; a message, if it has bytes."""
        self.last_heard_at = self._parts.clock()
        self._parts.traffic.received_bytes += message_bytes

    def close(self, code: int, reason: str) -> None:
        """Close after what is queued; idempotent, and nothing can be queued after it."""
        if not self._is_closing:
            self._put(Outgoing(OutgoingKind.CLOSE, reason.encode()[:123], code))
            self._is_closing = True

    def abort(self, problem: str) -> None:
        """Drop the connection at once; `problem` says why."""
        if not self.is_aborted:
            self.is_aborted = True
            self._is_closing = True
            self.problem = self.problem or problem
            logger.warning("link to agent %s dropped: %s", self.identity.agent_id, problem)
            self._parts.abort()

    def check(self, now: float, patience_seconds: float) -> None:
        """Drop the link if it has been silent or stuck for `patience_seconds`."""
        if now - self.last_heard_at >= patience_seconds:
            self.abort(f"nothing was heard for {now - self.last_heard_at:.1f} s")
        elif self._queue and now - self._head_since >= patience_seconds:
            self.abort(f"it took nothing for {now - self._head_since:.1f} s")

    async def wait_next(self) -> Outgoing:
        """The first entry, which stays in the queue until it is `written`. Cancellation here loses nothing."""
        while not self._queue:
            self._wake.clear()
            await self._wake.wait()
        return self._queue[0]

    def written(self) -> None:
        """The first entry went out."""
        entry = self._queue.popleft()
        self._queued_bytes -= len(entry.data)
        if entry.kind is OutgoingKind.MESSAGE:
            self._parts.traffic.sent_bytes += len(entry.data)
        self._head_since = self._parts.clock()

    @property
    def queued_bytes(self) -> int:
        """What waits to be written."""
        return self._queued_bytes

    def _put(self, entry: Outgoing) -> None:
        if self._is_closing:
            return
        too_many = len(self._queue) >= MAX_OUTGOING_FRAMES
        if too_many or self._queued_bytes + len(entry.data) > self._parts.max_outgoing_bytes:
            self.abort("more waits to be sent than the bound allows")
            return
        if not self._queue:
            self._head_since = self._parts.clock()
        self._queue.append(entry)
        self._queued_bytes += len(entry.data)
        self._wake.set()

    def __repr__(self) -> str:
        return f"<AgentLink {self.identity.agent_id} | {len(self._queue)} frames, {self._queued_bytes} bytes waiting>"
