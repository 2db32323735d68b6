"""The service manager's end of sd_notify: a real datagram socket, and every message that came."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

DEADLINE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Message:
    """One datagram."""

    lines: tuple[str, ...]

    @property
    def status(self) -> str | None:
        return next((line.removeprefix("STATUS=") for line in self.lines if line.startswith("STATUS=")), None)


@dataclass
class NotifyListener:
    """`address` is what NOTIFY_SOCKET gets."""

    address: str
    messages: list[Message] = field(default_factory=list)
    _grown: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def lines(self) -> list[str]:
        """All of them, in the order in which they came."""
        return [line for message in self.messages for line in message.lines]

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Looked at after each message. Fails the test with what came."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS), self._grown:
                await self._grown.wait_for(condition)
        except TimeoutError:
            raise AssertionError(f"did not come true; last lines: {self.lines[-20:]}") from None

    async def wait_line(self, line: str, count: int = 1) -> None:
        await self.wait_until(lambda: self.lines.count(line) >= count)

    async def wait_status(self, part: str) -> None:
        await self.wait_until(lambda: any(part in (message.status or "") for message in self.messages))

    async def _read(self, ours: socket.socket) -> None:
        while True:
            content = await asyncio.get_running_loop().sock_recv(ours, 65_536)
            async with self._grown:
                self.messages.append(Message(tuple(content.decode().split("\n"))))
                self._grown.notify_all()


@asynccontextmanager
async def notify_listener(place: Path | str) -> AsyncIterator[NotifyListener]:
    """`place`: a folder, or an abstract name that begins with `@`."""
    address = place if isinstance(place, str) else str(place / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.setblocking(False)
        ours.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        listener = NotifyListener(address)
        reader = asyncio.create_task(listener._read(ours), name="notify listener")
        try:
            yield listener
        finally:
            reader.cancel()
            await asyncio.wait([reader])
