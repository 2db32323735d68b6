"""How groups and members move: into the room or to an agent's own line, off an agent, and out.

Every function leaves room and fleet consistent with the records (`invariants.py` says what that means).
"""

from balancer.core.actions import CancelMember, FailGroup, ForgetMember
from balancer.core.fleet import AgentRecord
from balancer.core.groups import Group, Member, MemberPhase
from balancer.core.state import MachineState
from shared.failures import Failure, FailureKind


def place(state: MachineState, group: Group) -> None:
    """Put a group where it belongs after any change of its members.

    While some of its members run, the others wait for that same agent: their prompt is already there. If that
    agent takes no more work, or once nothing of the group runs, any agent will do.
    """
    agent: AgentRecord | None = None
    if group.is_open and group.waiting and group.running:
        agent = state.fleet.get(next(iter(group.running.values())).agent)
        if agent is not None and not agent.is_in_service:
            agent = None
    if group.pinned_to != (None if agent is None else agent.agent_id):
        state.fleet.unpin(group)
        if agent is not None:
            state.fleet.pin(group, agent)
    state.room.update(group)


def replace_pinned(state: MachineState, agent: AgentRecord) -> None:
    """The agent's ability to take work has changed: its own line may have to look elsewhere."""
    for group in list(agent.pinned):
        place(state, group)


def leave_agent(state: MachineState, member: Member) -> AgentRecord | None:
    """The member no longer occupies a slot; returns the agent, if it is still there."""
    member.group.running.pop(member.member, None)
    return state.fleet.free_slot(member)


def forget(state: MachineState, member: Member) -> None:
    """The member's last moment."""
    del state.members[member.member]
    state.actions.append(ForgetMember(member.group.group, member.member))


def restart_deadline(state: MachineState, group: Group, now: float) -> None:
    """The group was served: if it has to wait again, it may wait in full, and outside the room's bound."""
    group.deadline = now + state.settings.buffered_request_timeout_seconds
    group.outside_bound = True


def close_group(state: MachineState, group: Group) -> None:
    """Nobody wants the group any more. What runs is cancelled and drains; what waits is forgotten."""
    group.is_open = False
    del state.groups[group.group]
    for member in list(group.running.values()):
        assert member.agent is not None
        member.phase = MemberPhase.DRAINING
        state.actions.append(CancelMember(group.group, member.member, member.agent, member.attempt))
    group.running.clear()
    waiting, group.waiting = group.waiting, []
    for member in waiting:
        forget(state, member)
    place(state, group)


def fail_group(state: MachineState, group: Group, kind: FailureKind, message: str) -> None:
    """A failure of the balancer's own ends the group."""
    fail_group_with(state, group, Failure(kind, message))


def fail_group_with(state: MachineState, group: Group, failure: Failure) -> None:
    """End the group and all its members with this failure; no-op when it is closed already."""
    if not group.is_open:
        return
    state.counters.groups_failed += 1
    state.actions.append(FailGroup(group.group, failure))
    close_group(state, group)


def complete_if_done(state: MachineState, group: Group) -> None:
    """Close the group if its last member has ended well, else put it where it belongs now."""
    if group.is_open and not group.waiting and not group.running:
        state.counters.groups_finished += 1
        close_group(state, group)
    else:
        place(state, group)
