"""The one place that assigns work. It runs after every event and costs nothing when nothing can be assigned.

Three cases:
1. Groups wait in the room and some agent has a free slot: the first group gets the preferred agent; unless a group
   that already runs on that agent comes before it in the same order, which then gets the slot.
2. Nobody waits in the room, but an agent has a free slot and groups of its own waiting: those get it.
3. Otherwise everything stays as it is.
"""

from balancer.core.actions import Dispatch
from balancer.core.choose_agent import choose_agent
from balancer.core.fleet import AgentRecord
from balancer.core.groups import Group, MemberPhase
from balancer.core.placement import place
from balancer.core.state import MachineState


def match(state: MachineState) -> None:
    """Dispatch members until no free slot has a taker."""
    room, fleet = state.room, state.fleet
    while (group := room.first()) is not None and (least_busy := fleet.least_busy()) is not None:
        agent = choose_agent((least_busy,), group.prefix_hashes)
        assert agent is not None
        own = agent.pinned.first()
        dispatch(state, own if own is not None and own.order < group.order else group, agent)
    while (agent := fleet.next_agent_with_pins()) is not None:
        own = agent.pinned.first()
        assert own is not None
        dispatch(state, own, agent)


def dispatch(state: MachineState, group: Group, agent: AgentRecord) -> None:
    """The group's next member takes a slot of the agent."""
    member = group.waiting.pop(0)
    member.phase = MemberPhase.RUNNING
    member.attempt += 1
    group.running[member.member] = member
    state.fleet.take_slot(agent, member)
    state.counters.dispatches += 1
    state.actions.append(Dispatch(group.group, member.member, agent.agent_id, member.attempt))
    place(state, group)
