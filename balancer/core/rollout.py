"""Which agents may be told the newest state now, so that at least half of the fleet's slots keep serving.

Rules: an agent that serves nothing is told at once, and so is one that is on its way to an older state (that costs
no further slots). The others follow in waves: those under way and the next one together hold at most half of the
slots; but one at a time always may. An agent that tried and could not apply the state is done: it serves what it
served, and waiting for it would stop the rollout for ever. Agents about to end are told nothing.
"""

from collections.abc import Iterable

from balancer.core.fleet import AgentRecord
from shared.identifiers import AgentId


def is_under_way(agent: AgentRecord) -> bool:
    """Whether the agent was told a state and has neither reached it nor failed to."""
    if agent.told_revision is None:
        return False
    facts = agent.facts
    if facts.is_exchanging:
        return True
    has_arrived = facts.applied_revision is not None and facts.applied_revision >= agent.told_revision
    return not has_arrived and not facts.has_failed_to_apply


def agents_to_tell(agents: Iterable[AgentRecord], wanted_revision: int) -> list[AgentId]:
    """Agents to tell now, in the order in which to tell them."""
    under_way_slots = 0
    serving_slots = 0
    is_one_under_way = False
    at_once: list[AgentRecord] = []
    in_waves: list[AgentRecord] = []
    for agent in agents:
        if agent.facts.draining:
            continue
        is_told = agent.told_revision == wanted_revision
        if is_under_way(agent):
            slots = max(agent.facts.slots_total, agent.slots_when_told)
            under_way_slots += slots
            serving_slots += slots
            is_one_under_way = is_one_under_way or slots > 0
            if not is_told:
                at_once.append(agent)
            continue
        serving_slots += agent.facts.slots_total
        if not is_told:
            (in_waves if agent.facts.slots_total > 0 else at_once).append(agent)
    told = sorted(at_once, key=lambda one: one.agent_id)
    # Those with the least to finish come first: their exchange starts soonest.
    for agent in sorted(in_waves, key=lambda one: (len(one.members), one.agent_id)):
        slots = agent.facts.slots_total
        if is_one_under_way and 2 * (under_way_slots + slots) > serving_slots:
            continue
        told.append(agent)
        under_way_slots += slots
        is_one_under_way = True
    return [agent.agent_id for agent in told]


def tell(agent: AgentRecord, wanted_revision: int) -> None:
    """Remember that the agent was told; its slots count as under way until it settles."""
    agent.slots_when_told = max(agent.facts.slots_total, agent.slots_when_told if is_under_way(agent) else 0)
    agent.told_revision = wanted_revision
