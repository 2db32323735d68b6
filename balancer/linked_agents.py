"""The agents that are linked now: what the balancer shows of them, and the part that decisions depend on."""

from dataclasses import dataclass
from typing import Protocol

from balancer.core.events import AgentFacts
from shared.agent_status import AgentStatus, StateApplicationStatus
from shared.desired_state import AgentDesiredState
from shared.identifiers import AgentId
from shared.messages_to_agent import MessageToAgent

_FAILED = frozenset(
    {
        StateApplicationStatus.ATTEMPTED_AND_NOT_APPLIABLE,
        StateApplicationStatus.ATTEMPTED_AND_RETRYING,
        StateApplicationStatus.STUCK,
    }
)


@dataclass(frozen=True, slots=True)
class LinkIdentity:
    """Who is at the other end."""

    agent_id: AgentId
    name: str | None
    software_version: str
    remote_address: str


class Link(Protocol):
    """One way to talk to one agent; `balancer.agent_link` is the real one."""

    @property
    def identity(self) -> LinkIdentity: ...

    @property
    def last_heard_at(self) -> float:
        """By the balancer's clock."""
        ...

    def send(self, message: MessageToAgent) -> bool:
        """Queue a message; never waits. False: the message itself is too large for any link."""
        ...

    def has_room_for(self, message_bytes: int) -> bool:
        """Whether work of about this size may be queued now. What clients send never fills the queue: a full one
        costs the link."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Close the link after what is queued; the loss is reported later, as a fact."""
        ...


@dataclass(slots=True)
class LinkedAgent:
    """A link and the newest status that came over it."""

    link: Link
    status: AgentStatus


@dataclass(frozen=True, slots=True)
class AgentSnapshot:
    """One agent as the management service shows it. `slots_processing` is this balancer's own exact count."""

    agent_id: AgentId
    name: str | None
    status: AgentStatus
    slots_processing: int
    remote_address: str
    last_heard_age_seconds: float
    software_version: str


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """All agents, by name (none last) and id; `wanted_revision` is None until the state store has answered."""

    agents: tuple[AgentSnapshot, ...]
    wanted_revision: int | None
    applicable_state: AgentDesiredState | None


def facts_of(status: AgentStatus, engine_patience_seconds: float) -> AgentFacts:
    """What the machine has to know of a status.

    An engine that has not advanced for `engine_patience_seconds` (0: any time is fine) gets no new work; it still
    answers heartbeats, so nothing else would tell.
    """
    age = status.last_step_age_seconds
    return AgentFacts(
        slots_total=status.slots_total,
        slots_processing=status.slots_processing,
        accepting=status.accepting,
        draining=status.draining,
        applied_revision=status.applied_revision,
        has_failed_to_apply=status.state_application_status in _FAILED,
        is_exchanging=status.swap_phase is not None,
        engine_hangs=age is not None and 0 < engine_patience_seconds <= age,
    )


def snapshot_of(agent: LinkedAgent, slots_processing: int, now: float) -> AgentSnapshot:
    """The agent at this moment."""
    identity = agent.link.identity
    return AgentSnapshot(
        agent_id=identity.agent_id,
        name=identity.name,
        status=agent.status,
        slots_processing=slots_processing,
        remote_address=identity.remote_address,
        last_heard_age_seconds=max(0.0, now - agent.link.last_heard_at),
        software_version=identity.software_version,
    )
