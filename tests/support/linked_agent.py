"""An agent as it runs, with a scripted runtime, and what the tests of its link ask of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from agent.llama_loaded_model import EngineOutlet
from tests.support.agent_states import state
from tests.support.running_agent import RunningAgent
from tests.support.running_agent import running_agent as run_in_process
from tests.support.scripted_backend import expected_answer, prompt_with_answer
from tests.support.scripted_balancer import AgentConnection, ScriptedBalancer
from tests.support.scripted_runtime import ScriptedRuntime

A, B = state("/a.gguf"), state("/b.gguf")
SLOTS = 3


@dataclass
class LinkedAgent:
    """An agent in a task of this process, with its scripted runtime."""

    agent: RunningAgent
    runtime: ScriptedRuntime

    async def leave(self) -> None:
        await self.agent.leave()


@contextlib.asynccontextmanager
async def linked_agent(
    *balancers: ScriptedBalancer, token: str | None = None, slots: int = SLOTS, **settings: Any
) -> AsyncIterator[LinkedAgent]:
    """Runs until the block ends; afterwards no model may be open."""
    runtimes: list[ScriptedRuntime] = []

    def make_runtime(outlet: EngineOutlet) -> ScriptedRuntime:
        runtimes.append(ScriptedRuntime(outlet, slots))
        return runtimes[0]

    async with run_in_process(make_runtime, *balancers, token=token, slots=slots, **settings) as agent:
        await asyncio.sleep(0)  # it makes its runtime first
        try:
            yield LinkedAgent(agent, runtimes[0])
        finally:
            runtimes[0].may_load.set()
            runtimes[0].may_decode.set()
            await agent.leave()
            assert all(model.is_closed for model in runtimes[0].models), "a model leaked"


def text(ids: list[int]) -> str:
    """The prompt that the scripted vocabulary reads as these ids."""
    return "".join(chr(33 + token) for token in ids)


PROMPT = text(prompt_with_answer(12, 40))
ANSWER = list(expected_answer(prompt_with_answer(12, 40), 40, 200))


async def serving(balancer: ScriptedBalancer, number: int = 1) -> AgentConnection:
    """A link whose agent serves model A."""
    connection = await balancer.wait_connection(number)
    await connection.set_state(1, A)
    await connection.wait_status(lambda status: status.accepting)
    return connection
