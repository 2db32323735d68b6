"""Since when not every agent runs what is wanted."""

from collections.abc import Iterable

from balancer.core.events import AgentFacts
from shared.identifiers import AgentId


class RevisionLag:
    """An agent is behind while the state in force there is older than the wanted one. One that is about to end is not,
    and one that is ahead (another balancer knows a newer state) neither."""

    def __init__(self) -> None:
        self._wanted: int | None = None
        self._behind: set[AgentId] = set()
        self._since: float | None = None

    def __repr__(self) -> str:
        return f"<RevisionLag {len(self._behind)} agents behind {self._wanted}>"

    @property
    def behind(self) -> frozenset[AgentId]:
        """The agents that are behind."""
        return frozenset(self._behind)

    @property
    def since(self) -> float | None:
        """When the first of those that are behind fell behind, or the wanted state changed, whichever was later; None
        while no agent is behind."""
        return self._since

    def wanted(self, revision: int, agents: Iterable[tuple[AgentId, AgentFacts]], now: float) -> None:
        """Another state is wanted: the wait for it begins now."""
        self._wanted = revision
        self._behind = {agent_id for agent_id, facts in agents if self.is_behind(facts)}
        self._since = now if self._behind else None

    def changed(self, agent_id: AgentId, facts: AgentFacts, now: float) -> None:
        """What an agent says of itself; also of one that has just joined."""
        if not self.is_behind(facts):
            self.gone(agent_id)
            return
        self._behind.add(agent_id)
        if self._since is None:
            self._since = now

    def gone(self, agent_id: AgentId) -> None:
        """The agent is lost, so nobody waits for it."""
        self._behind.discard(agent_id)
        if not self._behind:
            self._since = None

    def is_behind(self, facts: AgentFacts) -> bool:
        """Whether an agent with these facts is."""
        if self._wanted is None or facts.draining:
            return False
        return facts.applied_revision is None or facts.applied_revision < self._wanted
