"""What always holds between two events. Fixtures ask after every test; a debug setting asks after every event."""

from balancer.core.groups import MemberPhase
from balancer.core.state import MachineState


class InvariantBroken(AssertionError):
    """The machine's records contradict each other: a bug, never an operating condition."""


def check_invariants(state: MachineState) -> None:
    """Raises InvariantBroken with one sentence. Costs O(everything): not for the hot path."""
    _check_groups(state)
    _check_members(state)
    _check_agents(state)
    _check_rest(state)


def _check_groups(state: MachineState) -> None:
    room = state.room
    buffered = 0
    for group in state.groups.values():
        name = f"group {group.group}"
        _require(group.is_open, f"{name} is listed and closed")
        _require(bool(group.waiting or group.running), f"{name} is open and has nothing left")
        _require(group.is_buffered == room.has_deadline(group), f"{name} waits without a deadline, or runs with one")
        _require((group in room) == bool(group.waiting and not group.pinned_to), f"{name} is in the wrong line")
        if group.pinned_to is not None:
            agent = state.fleet.get(group.pinned_to)
            _require(agent is not None and group in agent.pinned, f"{name} is pinned to an agent that does not know")
            _require(bool(group.waiting and group.running), f"{name} is pinned for no reason")
        buffered += group.is_buffered
        for member in (*group.waiting, *group.running.values()):
            _require(state.members.get(member.member) is member, f"member {member.member} is not listed")
    _require(buffered == room.buffered, f"{buffered} groups are buffered, the room counts {room.buffered}")
    _require(room.counted <= room.buffered, "the room bounds more than it holds")


def _check_members(state: MachineState) -> None:
    for member in state.members.values():
        group, phase = member.group, member.phase
        name = f"member {member.member}"
        _require(
            (member in group.waiting) == (phase is MemberPhase.WAITING)
            and (member.member in group.running) == (phase is MemberPhase.RUNNING),
            f"{name} is {phase.value} and listed otherwise",
        )
        _require(group.is_open == (phase is not MemberPhase.DRAINING), f"{name} is {phase.value} in a closed group")
        _require((member.agent is None) == (phase is MemberPhase.WAITING), f"{name} is {phase.value} on {member.agent}")
        if member.agent is not None:
            agent = state.fleet.get(member.agent)
            _require(
                agent is not None and agent.members.get(member.member) is member,
                f"{name} occupies no slot of {member.agent}",
            )


def _check_agents(state: MachineState) -> None:
    on_agents = 0
    for agent in state.fleet:
        name = f"agent {agent.agent_id}"
        on_agents += len(agent.members)
        _require(
            all(member.agent == agent.agent_id for member in agent.members.values()),
            f"{name} lists a member that is elsewhere",
        )
        _require(state.fleet.is_available(agent) == agent.can_take_work, f"{name} is offered wrongly")
        _require(all(group.pinned_to == agent.agent_id for group in agent.pinned), f"{name} holds a foreign group")
        _require(not (agent.can_take_work and agent.pinned), f"{name} has a free slot and groups waiting for it")
    occupied = sum(1 for member in state.members.values() if member.phase is not MemberPhase.WAITING)
    _require(occupied == on_agents, f"{occupied} members are on agents, agents list {on_agents}")
    _require(
        state.room.first() is None or state.fleet.least_busy() is None, "a group waits while an agent has a free slot"
    )


def _check_rest(state: MachineState) -> None:
    counters = state.counters
    ended = counters.groups_finished + counters.groups_failed + counters.groups_left
    _require(
        counters.groups_opened == ended + len(state.groups),
        f"{counters.groups_opened} groups came, {ended} ended, {len(state.groups)} are open",
    )
    linked = {agent.agent_id for agent in state.fleet}
    _require(state.untold <= linked, "the rollout waits for an agent that is gone")
    behind = {agent.agent_id for agent in state.fleet if state.lag.is_behind(agent.facts)}
    _require(state.lag.behind == behind, f"{len(behind)} agents are behind, {len(state.lag.behind)} are listed")
    _require((state.lag.since is not None) == bool(behind), "the wait for agents has no beginning, or no end")


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise InvariantBroken(sentence)
