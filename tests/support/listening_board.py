"""The agents' half of a balancer, through aiohttp's runner as production starts it (its test server is kinder)."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from balancer.agent_socket import AgentSocket, AgentSocketSettings
from balancer.core.machine import Machine
from balancer.core.state import MachineSettings
from balancer.response_stream import Ended, ResponseStream, StreamEvent, Tokens
from balancer.switchboard import Switchboard
from balancer.switchboard_tables import SwitchboardSettings

DEADLINE_SECONDS = 20.0


@dataclass
class ListeningBoard:
    """The agents' half of a balancer, really listening."""

    board: Switchboard
    socket: AgentSocket
    url: str

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Until something that the switchboard shows is so."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not holds():
                await self.board.changes.wait_changed(self.board.changes.version)

    async def wait_agents(self, count: int) -> None:
        await self.wait_until(lambda: len(self.board.fleet().agents) == count)


@asynccontextmanager
async def listening_board(
    *, handler_cancellation: bool = True, token: str | None = None, **settings: object
) -> AsyncIterator[ListeningBoard]:
    """Listens on a free port until the block ends. `settings` are those of AgentSocketSettings."""
    machine = Machine(MachineSettings(checks_every_event=True))
    board = Switchboard(machine, time.monotonic, SwitchboardSettings())

    def authorize(one: web.Request) -> bool:
        return token is None or one.headers.get("Authorization") == f"Bearer {token}"

    socket = AgentSocket(
        board,
        AgentSocketSettings("balancer-1", **{"close_timeout_seconds": 1.0, **settings}),  # type: ignore[arg-type]
        time.monotonic,
        authorize,
    )
    app = web.Application()
    app.router.add_get("/api/v1/agent_socket/{agent_id}", socket.handle)
    runner = web.AppRunner(app, handler_cancellation=handler_cancellation, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    driver = asyncio.create_task(board.run())
    try:
        yield ListeningBoard(board, socket, f"http://127.0.0.1:{port}")
        board.check_invariants()
    finally:
        driver.cancel()
        await socket.close_all()
        await runner.cleanup()


async def all_of(stream: ResponseStream) -> list[StreamEvent]:
    """Every event up to the end. Raises TimeoutError."""
    events: list[StreamEvent] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not events or not isinstance(events[-1], Ended):
            events += await stream.wait_events()
    return events


def text_of(events: list[StreamEvent]) -> str:
    """What a client reads."""
    return "".join(event.item.text for event in events if isinstance(event, Tokens))


def end_of(events: list[StreamEvent]) -> Ended:
    """The last event, which must be an end."""
    assert isinstance(events[-1], Ended)
    return events[-1]
