"""An agent in a task of the test's own process, against scripted balancers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from agent.app import Agent, MakeRuntime
from agent.dialler import BalancerAccess
from agent.settings import AgentSettings
from shared.service_link import Supervision
from tests.support.scripted_balancer import ScriptedBalancer

LEAVE_SECONDS = 30.0


@dataclass
class RunningAgent:
    """Set `stop` as SIGTERM would."""

    stop: asyncio.Event
    task: asyncio.Task[None]

    async def leave(self) -> None:
        """Ask it to end, and wait until it has."""
        self.stop.set()
        async with asyncio.timeout(LEAVE_SECONDS):
            await self.task


@contextlib.asynccontextmanager
async def running_agent(
    make_runtime: MakeRuntime,
    *balancers: ScriptedBalancer,
    token: str | None = None,
    access: BalancerAccess | None = None,
    supervision: Supervision | None = None,
    **settings: Any,
) -> AsyncIterator[RunningAgent]:
    """Runs until the block ends."""
    given = {
        "management_addr": [balancer.address for balancer in balancers],
        "slots": 3,
        "name": "under-test",
        "drain_timeout_seconds": 20.0,
        **settings,
    }
    stop = asyncio.Event()
    parsed = AgentSettings.model_validate(given)
    access = access or BalancerAccess(token, await asyncio.to_thread(parsed.read_tls))
    agent = Agent(parsed, access, make_runtime, supervision)
    running = RunningAgent(stop, asyncio.create_task(agent.run(stop)))
    try:
        yield running
    finally:
        await running.leave()
