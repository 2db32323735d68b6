"""Server-sent events of snapshots: the first at once, then the newest after each change, and a sign of life.

`data: {json}\\n\\n` without event names or ids (clients match the prefix `data: `), and the comment `: keep-alive`
right after the first snapshot and every 10 s. A client that is slow gets fewer snapshots, each of them whole.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import orjson
from aiohttp import web

from balancer.chunked_stream import ChunkedStream, ClientGone, ClientTooSlow
from balancer.fleet_view import Json
from balancer.management_services import Changes

HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
KEEP_ALIVE: Final = b": keep-alive\n\n"


class SnapshotStreams:
    """All open streams of one service. They end at `end_all`; none is begun after it."""

    def __init__(self, changes: Changes, *, keep_alive_seconds: float, least_seconds_between: float, most: int) -> None:
        self._changes = changes
        self._keep_alive_seconds = keep_alive_seconds
        self._least_seconds_between = least_seconds_between
        self._most = most
        self._is_over = False
        self._open = 0
        self._waits: set[asyncio.Timeout] = set()

    def __repr__(self) -> str:
        return f"<SnapshotStreams {self._open}/{self._most} open>"

    async def serve(self, request: web.Request, snapshot: Callable[[], Json]) -> web.StreamResponse:
        """Stream until the client leaves or `end_all`. Cancelled when the client leaves."""
        if self._is_over or self._open >= self._most:
            why = "the balancer is shutting down" if self._is_over else "too many event streams are open"
            return web.Response(status=503, text=why, headers={"Retry-After": "5"})
        self._open += 1
        stream = ChunkedStream(request)
        try:
            await stream.open(HEADERS)
            await self._send_snapshots(stream, snapshot)
            await stream.finish()
        except ClientGone:
            pass
        except ClientTooSlow:
            stream.abort()
        finally:
            self._open -= 1
        return stream.response

    def end_all(self) -> None:
        """Synchronous: every stream sends its end next."""
        self._is_over = True
        for wait in self._waits:
            if not wait.expired():  # that one is about to wake up, and can no longer be moved
                wait.reschedule(asyncio.get_running_loop().time())

    async def _send_snapshots(self, stream: ChunkedStream, snapshot: Callable[[], Json]) -> None:
        loop = asyncio.get_running_loop()
        seen = self._changes.version  # before the snapshot, so that what changes meanwhile is not missed
        sent = _event(snapshot())
        await stream.send([sent, KEEP_ALIVE])
        next_keep_alive = loop.time() + self._keep_alive_seconds
        while not self._is_over:
            if await self._has_changed(seen, next_keep_alive):
                await self._pause(loop.time() + self._least_seconds_between)
                seen = self._changes.version
                event = _event(snapshot())
                if event != sent:
                    sent = event
                    await stream.send([event])
            if loop.time() >= next_keep_alive:  # also while changes come in that this snapshot does not show
                await stream.send([KEEP_ALIVE])
                next_keep_alive = loop.time() + self._keep_alive_seconds

    async def _has_changed(self, seen: int, until: float) -> bool:
        """False at `until`, and at `end_all`."""
        try:
            async with asyncio.timeout_at(until) as wait:
                self._waits.add(wait)
                try:
                    await self._changes.wait_changed(seen)
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            return False
        return True

    async def _pause(self, until: float) -> None:
        """Let further changes come in, so that a busy fleet costs a few snapshots a second and no more."""
        try:
            async with asyncio.timeout_at(until) as wait:
                self._waits.add(wait)
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            pass


def _event(document: Json) -> bytes:
    return b"data: " + orjson.dumps(document) + b"\n\n"
