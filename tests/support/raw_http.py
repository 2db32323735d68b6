"""An HTTP client of bare bytes: it sees chunk borders, half-closes, resets, and reads as slowly as it is told.

async with RawConnection.to(address) as client:
    await client.post("/api/v1/continue_from_raw_prompt", {"raw_prompt": "x", "max_tokens": 1})
    head = await client.read_head()
    async for chunk in client.chunks(): ...
"""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from shared.settings_sources import Address

DEADLINE_SECONDS = 20.0


class AnswerBroken(Exception):
    """The connection ended inside an answer."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers (names in lower case; repeated ones joined by a comma)."""

    status: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    head: Head
    body: bytes

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(slots=True)
class RawConnection:
    """Every wait ends after `deadline_seconds` with TimeoutError."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    deadline_seconds: float = DEADLINE_SECONDS
    _head: Head | None = field(default=None)

    @classmethod
    @asynccontextmanager
    async def to(
        cls,
        address: Address,
        *,
        receive_buffer_bytes: int | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> AsyncIterator["RawConnection"]:
        """A new connection, closed at the end. A small receive buffer makes a slow reader felt sooner."""
        client = socket.socket()
        client.setblocking(False)
        if receive_buffer_bytes is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        try:
            await asyncio.get_running_loop().sock_connect(client, tuple(address))
        except BaseException:
            client.close()
            raise
        reader, writer = await asyncio.open_connection(sock=client, limit=receive_buffer_bytes or 2**16)
        try:
            yield cls(reader, writer, deadline_seconds)
        finally:
            writer.close()

    async def post(self, path: str, body: Any, **headers: str) -> None:
        """`body` is sent as it is when it is bytes, else as JSON. Underscores in header names become dashes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        await self.request("POST", path, data, given)

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: balancer"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body or method in ("POST", "PUT"):
            lines.append(f"Content-Length: {len(body)}")
        await self.send("\r\n".join([*lines, "", ""]).encode() + body)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        async with asyncio.timeout(self.deadline_seconds):
            await self._writer.drain()

    async def read_head(self) -> Head:
        """Raises AnswerBroken when the connection ends first."""
        try:
            async with asyncio.timeout(self.deadline_seconds):
                lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise AnswerBroken from error
        headers: dict[str, str] = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            name = name.lower()
            headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
        self._head = Head(int(lines[0].split()[1]), headers)
        return self._head

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of a chunked answer. Raises AnswerBroken when the last, empty one does not come."""
        while chunk := await self.read_chunk():
            yield chunk

    async def read_chunk(self) -> bytes:
        """The next chunk; empty at the end."""
        try:
            async with asyncio.timeout(self.deadline_seconds):
                size = int(await self._reader.readuntil(b"\r\n"), 16)
                data = await self._reader.readexactly(size + 2)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise AnswerBroken from error
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def read_answer(self) -> Answer:
        """Head and whole body."""
        head = await self.read_head()
        if head.headers.get("transfer-encoding") == "chunked":
            return Answer(head, b"".join([chunk async for chunk in self.chunks()]))
        async with asyncio.timeout(self.deadline_seconds):
            return Answer(head, await self._reader.readexactly(int(head.headers.get("content-length", "0"))))

    async def read_to_end(self) -> bytes:
        """Everything until the other side closes. Raises AnswerBroken on a reset."""
        try:
            async with asyncio.timeout(self.deadline_seconds):
                return await self._reader.read()
        except ConnectionError as error:
            raise AnswerBroken from error

    def half_close(self) -> None:
        """FIN: nothing more will be sent, but it still reads."""
        self._writer.write_eof()

    def reset(self) -> None:
        """RST instead of FIN, as when a process is killed with unread data."""
        client = self._writer.get_extra_info("socket")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()


def documents(body: bytes) -> list[dict[str, Any]]:
    """The lines of a native stream; every one must be a whole document with its newline."""
    assert body.endswith(b"\n")
    return [json.loads(line) for line in body.split(b"\n")[:-1]]
