"""One streamed answer: whole documents out at once, one HTTP chunk each, and an eye on clients that do not read.

aiohttp joins what one `write` is given into one chunk. Paddler's wire has a chunk per document, and a writer that lags
should still make one system call, so the chunks are framed here and leave in one write (RFC 9112, 7.1).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from aiohttp import HttpVersion11, web

STALL_SECONDS: Final = 30.0
_LEAST_PROGRESS_BYTES: Final = 1024  # per `stall_seconds`: a byte now and then does not hold a connection for weeks
_LOOK_SECONDS: Final = 0.02  # how often a writer that waits for its client looks; only slow clients cost this


class ClientGone(Exception):
    """The client closed its connection, or its half of it: nobody reads the rest."""


class ClientTooSlow(Exception):
    """The client did not read for `stall_seconds`, or the answer grew past its bound; the connection is aborted."""


class ChunkedStream:
    """`stall_seconds`: how long the client may read next to nothing while something waits for it."""

    def __init__(self, request: web.Request, *, stall_seconds: float = STALL_SECONDS) -> None:
        self._request = request
        self._stall_seconds = stall_seconds
        # HTTP/1.0 has no chunks; there the end of the connection is the end of the answer.
        self._frame = frame_chunks if request.version >= HttpVersion11 else b"".join
        self.response = web.StreamResponse()

    async def open(self, headers: Mapping[str, str]) -> None:
        """Status 200 and the headers, sent now rather than with the first document. Raises ClientGone."""
        self.response.headers.update(headers)
        try:
            writer = await self.response.prepare(self._request)
            assert writer is not None, "opened twice"
            self._transport()
            writer.send_headers()
        except ConnectionError:  # it left before its request was looked at, so nothing has cancelled us yet
            raise ClientGone from None

    async def send(self, documents: Sequence[bytes]) -> None:
        """Write documents, none of them empty, and wait while the client is behind. Raises ClientGone, ClientTooSlow.

        Cancelled when the connection is lost.
        """
        self._transport().write(self._frame(documents))
        if self._request.protocol.writing_paused:
            await self._wait_until_read()

    async def finish(self) -> None:
        """The end of the answer. Raises ClientGone, ClientTooSlow."""
        try:
            async with asyncio.timeout(self._stall_seconds):
                await self.response.write_eof()
        except ConnectionError:
            raise ClientGone from None
        except TimeoutError:
            raise ClientTooSlow from None

    def abort(self) -> None:
        """Drop the connection with what is unsent; the client sees a broken answer, never one that looks whole."""
        transport = self._request.transport
        if transport is not None:
            transport.abort()

    async def _wait_until_read(self) -> None:
        # Not `drain()`: it does not return while a half-closed client reads nothing, and a cancelled one cannot be
        # awaited again.
        loop = asyncio.get_running_loop()
        unread = self._transport().get_write_buffer_size()
        last_progress = loop.time()
        while self._request.protocol.writing_paused:
            await asyncio.sleep(_LOOK_SECONDS)
            still_unread = self._transport().get_write_buffer_size()
            if still_unread <= unread - _LEAST_PROGRESS_BYTES:
                unread, last_progress = still_unread, loop.time()
            elif loop.time() - last_progress >= self._stall_seconds:
                raise ClientTooSlow

    def _transport(self) -> asyncio.Transport:
        # After a FIN from the client the transport closes once what is buffered has been sent: half-closed is gone.
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ClientGone
        return transport


def frame_chunks(documents: Sequence[bytes]) -> bytes:
    """Each document as one HTTP chunk. An empty document would end the answer, so there must be none."""
    return b"".join([b"%x\r\n%b\r\n" % (len(document), document) for document in documents])
