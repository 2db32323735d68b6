"""A client of Paddler's wire that looks at each line of a stream: what it holds, and how it came."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.raw_http import Head, RawConnection

RAW_PROMPT_PATH = "/api/v1/continue_from_raw_prompt"


@dataclass(frozen=True, slots=True)
class Generated:
    """A whole answer: the documents of its lines, in order. The last one is its end."""

    head: Head
    lines: list[dict[str, Any]]

    @property
    def request_id(self) -> str:
        return self.head.headers["x-request-id"]

    @property
    def pieces(self) -> list[str]:
        """The visible text, line by line."""
        return [piece for line in self.lines if (piece := piece_of(line)) is not None]

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def error(self) -> tuple[int, str] | None:
        """Code and description, when it ended so."""
        error = self.lines[-1].get("Error")
        return None if error is None else (error["error"]["code"], error["error"]["description"])

    @property
    def variant(self) -> tuple[str, Any]:
        """Name and payload of the token variant that ended it. Raises AssertionError when it was an `Error`."""
        assert self.error is None, self.error
        ((name, payload),) = self.lines[-1]["Response"]["response"]["GeneratedToken"].items()
        return name, payload

    @property
    def done(self) -> dict[str, Any]:
        """The payload of `Done`. Raises AssertionError when it ended in another way."""
        assert self.error is None, self.error
        done: dict[str, Any] = self.lines[-1]["Response"]["response"]["GeneratedToken"]["Done"]
        return done

    @property
    def usage(self) -> dict[str, int]:
        usage: dict[str, int] = self.done["usage"]
        return usage

    @property
    def finish_reason(self) -> str:
        reason: str = self.done["finish_reason"]
        return reason

    @property
    def generated_by(self) -> set[str | None]:
        return {line["Response"]["generated_by"] for line in self.lines if "Response" in line}


@dataclass(slots=True)
class NativeStream:
    """The answer to one request, read line by line."""

    connection: RawConnection
    head: Head | None = None
    _lines: list[dict[str, Any]] = field(default_factory=list)
    _unread: list[dict[str, Any]] = field(default_factory=list)

    async def read_head(self) -> Head:
        if self.head is None:
            self.head = await self.connection.read_head()
            assert self.head.status == 200, self.head
        return self.head

    async def read_line(self) -> dict[str, Any] | None:
        """The next document; None at the end. A chunk must hold whole lines."""
        await self.read_head()
        if not self._unread:
            chunk = await self.connection.read_chunk()
            if not chunk:
                return None
            assert chunk.endswith(b"\n"), chunk
            self._unread = [json.loads(line) for line in chunk.split(b"\n")[:-1]]
        line = self._unread.pop(0)
        self._lines.append(line)
        return line

    async def read_pieces(self, count: int) -> list[str]:
        """The next `count` lines, which must hold text."""
        pieces = []
        for _ in range(count):
            line = await self.read_line()
            assert line is not None
            piece = piece_of(line)
            assert piece is not None, line
            pieces.append(piece)
        return pieces

    async def read_all(self) -> Generated:
        """Everything, including what was read before. Nothing may follow the end."""
        while await self.read_line() is not None:
            pass
        assert self.head is not None
        assert all(piece_of(line) is not None for line in self._lines[:-1]), self._lines
        return Generated(self.head, list(self._lines))


def piece_of(line: dict[str, Any]) -> str | None:
    """The text of a token's line; None of any other."""
    response = line.get("Response")
    piece: str | None = response["response"]["GeneratedToken"].get("ContentToken") if response else None
    return piece
