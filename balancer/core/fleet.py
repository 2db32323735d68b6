"""Which agents there are, who runs what, and who has a free slot.

Rules: a slot is taken by a member's entry in its agent's `members`, and by nothing else; there is no counter that
could drift. Agents that can take work are kept in the order of `choose_agent.preference`, so finding one does not
look at the others. `refresh` after every change of an agent.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from balancer.core.choose_agent import Preference, preference
from balancer.core.events import AgentFacts
from balancer.core.groups import Group, Member
from balancer.core.priority_set import PrioritySet
from shared.identifiers import AgentId, MemberId


@dataclass(slots=True, eq=False)
class AgentRecord:
    """One linked agent.

    `members` run or drain there. `pinned` are groups whose other members run there and which wait for its next
    slot. `is_blocked`: it said `Busy` and nothing has changed since. `told_revision` and `slots_when_told` belong
    to the rollout.
    """

    agent_id: AgentId
    name: str | None
    facts: AgentFacts
    members: dict[MemberId, Member] = field(default_factory=dict)
    pinned: PrioritySet[Group] = field(default_factory=PrioritySet)
    last_dispatch: int = 0
    is_blocked: bool = False
    told_revision: int | None = None
    slots_when_told: int = 0

    @property
    def is_in_service(self) -> bool:
        """Whether it would take work if it had a free slot."""
        facts = self.facts
        return facts.accepting and not facts.draining and not facts.engine_hangs and facts.slots_total > 0

    @property
    def can_take_work(self) -> bool:
        """Whether a member may be dispatched there now."""
        return self.is_in_service and not self.is_blocked and len(self.members) < self.facts.slots_total

    @property
    def preference(self) -> Preference:
        """Its place among agents that can take work."""
        return preference(len(self.members), self.facts.slots_total, self.last_dispatch, self.agent_id)


class Fleet:
    """The linked agents by id, and the ones with room by preference."""

    def __init__(self) -> None:
        self._agents: dict[AgentId, AgentRecord] = {}
        self._available: PrioritySet[AgentRecord] = PrioritySet()
        self._blocked_until: PrioritySet[AgentRecord] = PrioritySet()
        self._pins_to_serve: dict[AgentRecord, None] = {}  # a set that keeps its order
        self._dispatches = 0

    # Changes

    def add(self, agent: AgentRecord) -> None:
        """A new agent; its id is not in the fleet."""
        self._agents[agent.agent_id] = agent
        self.refresh(agent)

    def remove(self, agent: AgentRecord) -> None:
        """The agent is gone; what it ran or held is the caller's to place."""
        del self._agents[agent.agent_id]
        self._available.discard(agent)
        self._blocked_until.discard(agent)
        self._pins_to_serve.pop(agent, None)

    def take_slot(self, agent: AgentRecord, member: Member) -> None:
        """The member occupies a slot of the agent."""
        self._dispatches += 1
        agent.last_dispatch = self._dispatches
        agent.members[member.member] = member
        member.agent = agent.agent_id
        self.refresh(agent)

    def free_slot(self, member: Member) -> AgentRecord | None:
        """The member leaves its agent, which is returned (None: that agent is gone, or it was on none)."""
        agent = self._agents.get(member.agent) if member.agent is not None else None
        member.agent = None
        if agent is not None and agent.members.pop(member.member, None) is not None:
            self.refresh(agent)
        return agent

    def block(self, agent: AgentRecord, until: float) -> None:
        """The agent said that it is busy: offer it nothing before something changes there, or that time comes."""
        agent.is_blocked = True
        self._blocked_until.put(agent, until)
        self.refresh(agent)

    def unblock(self, agent: AgentRecord) -> None:
        """Something changed at the agent."""
        if agent.is_blocked:
            agent.is_blocked = False
            self._blocked_until.discard(agent)
            self.refresh(agent)

    def unblock_due(self, now: float) -> None:
        """Try those again that have been left alone for long enough."""
        while (until := self._blocked_until.first_key()) is not None and until <= now:
            agent = self._blocked_until.first()
            assert agent is not None
            self.unblock(agent)

    def pin(self, group: Group, agent: AgentRecord) -> None:
        """The group's waiting members are for this agent's next free slots."""
        group.pinned_to = agent.agent_id
        agent.pinned.put(group, group.order)
        self.refresh(agent)

    def unpin(self, group: Group) -> None:
        """The group waits for no particular agent."""
        agent = self._agents.get(group.pinned_to) if group.pinned_to is not None else None
        group.pinned_to = None
        if agent is not None:
            agent.pinned.discard(group)

    def refresh(self, agent: AgentRecord) -> None:
        """Keep the agent among the available ones exactly while it can take work."""
        if agent.can_take_work:
            self._available.put(agent, agent.preference)
            if agent.pinned:
                self._pins_to_serve[agent] = None
        else:
            self._available.discard(agent)

    # Questions

    def get(self, agent_id: AgentId | None) -> AgentRecord | None:
        """The agent, if it is linked."""
        return None if agent_id is None else self._agents.get(agent_id)

    def least_busy(self) -> AgentRecord | None:
        """The preferred one among those that can take work."""
        return self._available.first()

    def next_agent_with_pins(self) -> AgentRecord | None:
        """An agent that can take work and has groups of its own waiting; each is named once per change."""
        while self._pins_to_serve:
            agent = next(iter(self._pins_to_serve))
            if agent.can_take_work and agent.pinned:
                return agent
            del self._pins_to_serve[agent]
        return None

    def next_deadline(self) -> float | None:
        """When the next busy agent may be tried again."""
        until: float | None = self._blocked_until.first_key()
        return until

    def is_available(self, agent: AgentRecord) -> bool:
        """Whether the fleet offers it."""
        return agent in self._available

    @property
    def slots_total(self) -> int:
        """Slots that serve, over all agents."""
        return sum(agent.facts.slots_total for agent in self._agents.values())

    @property
    def slots_taken(self) -> int:
        """Slots taken by this balancer."""
        return sum(len(agent.members) for agent in self._agents.values())

    def __len__(self) -> int:
        return len(self._agents)

    def __iter__(self) -> Iterator[AgentRecord]:
        return iter(self._agents.values())

    def __repr__(self) -> str:
        return f"<Fleet {len(self)} agents | {self.slots_taken}/{self.slots_total} slots busy>"
