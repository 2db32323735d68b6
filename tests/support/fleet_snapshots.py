"""A fleet that is as a test says: records of the switchboard's shape, and a switchboard made of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from balancer.agent_questions import AgentDidNotAnswer, AgentGone, AgentUnknown
from shared.agent_status import AgentStatus
from shared.desired_state import AgentDesiredState
from tests.support.agent_statuses import agent_status


def status(**changes: Any) -> AgentStatus:
    """An agent with four slots that serves revision 1 and has nothing to do; `changes` replace fields."""
    fields = {"applied_revision": 1, "model_path": "/models/tiny.gguf", **changes}
    return agent_status(**fields)


@dataclass(frozen=True, slots=True)
class Agent:
    """Like the switchboard's snapshot of one agent."""

    agent_id: str = "q3n0pXv8uT2rYwZ1aB4cD"
    name: str | None = "agent-a"
    status: AgentStatus = field(default_factory=status)
    slots_processing: int = 0
    last_heard_age_seconds: float = 0.25
    software_version: str = "0.1.0"
    remote_address: str | None = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Like the switchboard's snapshot of the fleet."""

    agents: tuple[Agent, ...] = ()
    wanted_revision: int | None = None
    applicable_state: AgentDesiredState | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """The three of the machine's figures that are exported."""

    requests_buffered: int = 0
    slots_total: int = 0
    slots_processing: int = 0


class Changes:
    """Grows when told to."""

    def __init__(self) -> None:
        self.version = 0
        self._next = asyncio.Event()

    def announce(self) -> None:
        self.version += 1
        woken, self._next = self._next, asyncio.Event()
        woken.set()

    async def wait_changed(self, seen_version: int) -> int:
        while self.version == seen_version:
            await self._next.wait()
        return self.version


class ScriptedSwitchboard:
    """Answers what it was given. `answers` of an agent: a value, or the exception to raise."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.current = Fleet()
        self.figures = Statistics()
        self.stories: dict[str, tuple[str, ...]] = {}
        self.metadata: dict[str, Mapping[str, str] | Exception | None] = {}
        self.overrides: dict[str, str | Exception | None] = {}
        self.told: list[tuple[int, AgentDesiredState]] = []

    def show(self, *agents: Agent) -> None:
        """The fleet is now these agents."""
        self.current = Fleet(agents, self.current.wanted_revision, self.current.applicable_state)
        self.changes.announce()

    def count(self, figures: Statistics) -> None:
        """The machine's figures are now these."""
        self.figures = figures
        self.changes.announce()

    def set_desired_state(self, revision: int, state: AgentDesiredState) -> None:
        self.told.append((revision, state))
        self.current = Fleet(self.current.agents, revision, state)
        self.changes.announce()

    def fleet(self) -> Fleet:
        return self.current

    def statistics(self) -> Statistics:
        return self.figures

    def story(self, request_id: str) -> tuple[str, ...] | None:
        return self.stories.get(request_id)

    async def ask_model_metadata(self, agent_id: str) -> Mapping[str, str] | None:
        if agent_id not in self.metadata:
            raise AgentUnknown
        answer = self.metadata[agent_id]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask_chat_template_override(self, agent_id: str) -> str | None:
        if agent_id not in self.overrides:
            raise AgentUnknown
        answer = self.overrides[agent_id]
        if isinstance(answer, Exception):
            raise answer
        return answer


GONE = AgentGone()
SILENT = AgentDidNotAnswer()
