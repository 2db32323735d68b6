"""What runs beside the reader of one agent's link: the only writer of its socket, and the heartbeat."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from balancer.agent_link import AgentLink, OutgoingKind

SILENT_INTERVALS = 2  # an agent that is silent for so many heartbeats is lost


async def write(socket: web.WebSocketResponse, link: AgentLink) -> None:
    """Write what the link holds, until CLOSE was written or the connection breaks, which the reader notices.

    Cancelled in a write: the connection is of no use any more, so nothing is owed to it.
    """
    try:
        while True:
            entry = await link.wait_next()
            if entry.kind is OutgoingKind.MESSAGE:
                await socket.send_bytes(entry.data)
            elif entry.kind is OutgoingKind.PING:
                link.ping_leaves()  # before it does: its pong may be read before the write returns
                await socket.ping(entry.data)
            elif entry.kind is OutgoingKind.PONG:
                await socket.pong(entry.data)
            else:
                await socket.close(code=entry.code, message=entry.data)
                return
            link.written()
    except (ConnectionError, RuntimeError) as error:
        # RuntimeError is aiohttp's word for a write to a socket that is closed.
        link.abort(f"a write failed ({type(error).__name__})")


async def watch(link: AgentLink, clock: Callable[[], float], interval_seconds: float) -> None:
    """Ping, and drop a link that is silent or stuck for two intervals. Ends only by cancellation."""
    patience = SILENT_INTERVALS * interval_seconds
    next_ping = clock() + interval_seconds
    while True:
        # A link that was dropped stays silent until its reader ends: look again, but do not spin.
        silent_at = max(link.last_heard_at + patience, clock() + interval_seconds / 10)
        wake_at = min(next_ping, silent_at)
        await asyncio.sleep(max(0.0, wake_at - clock()))
        now = clock()
        # If this process was held up, what the agent sent may lie unread: that is not the agent's silence.
        if now - wake_at < interval_seconds / 2:
            link.check(now, patience)
        if now >= next_ping:
            link.ping()
            next_ping = now + interval_seconds


async def end(writer: "asyncio.Task[None]", link: AgentLink, timeout_seconds: float) -> None:
    """Let the writer send what is queued and close the socket, within a bound; then drop the connection."""
    link.close(1000, "")  # no-op when the link is closing for a better reason
    if not link.is_aborted:
        await asyncio.wait({writer}, timeout=2 * timeout_seconds)
    if not writer.done():
        link.abort("it did not take part in closing")
        writer.cancel()
