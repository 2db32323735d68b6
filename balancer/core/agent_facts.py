"""What follows when agents come, change and go, and when the fleet should run another state."""

from balancer.core.actions import SendState
from balancer.core.events import AgentJoined, AgentLost, AgentStatusChanged, DesiredStateChanged
from balancer.core.fleet import AgentRecord
from balancer.core.groups import Group, Member, MemberPhase
from balancer.core.placement import fail_group, forget, leave_agent, place, replace_pinned, restart_deadline
from balancer.core.rollout import agents_to_tell, tell
from balancer.core.state import MachineState
from shared.failures import FailureKind


class AgentFactsPart:
    """Handlers of the machine; each changes the state it was given and nothing else."""

    def __init__(self, state: MachineState) -> None:
        self._state = state

    def on_agent_joined(self, event: AgentJoined, now: float) -> None:
        """Whoever joins gets the present state at once: it may have been away for any length of time."""
        state = self._state
        agent = AgentRecord(event.agent, event.name, event.facts)
        state.fleet.add(agent)
        state.lag.changed(event.agent, event.facts, now)
        if state.wanted_revision is not None:
            self._tell(agent, state.wanted_revision)

    def on_agent_status_changed(self, event: AgentStatusChanged, now: float) -> None:
        state = self._state
        agent = state.fleet.get(event.agent)
        if agent is None:
            state.counters.stale_facts += 1
            return
        if event.facts != agent.facts:
            state.lag.changed(event.agent, event.facts, now)
            if event.facts.applied_revision not in (None, agent.facts.applied_revision):
                state.counters.states_applied += 1
            was_in_service = agent.is_in_service
            agent.facts = event.facts
            state.fleet.unblock(agent)
            state.fleet.refresh(agent)
            if was_in_service and not agent.is_in_service:
                replace_pinned(state, agent)
        self._roll_out()

    def on_agent_lost(self, event: AgentLost, now: float) -> None:
        """What delivered nothing takes its place at the head of the room again; the rest cannot go on (yet)."""
        state = self._state
        agent = state.fleet.get(event.agent)
        if agent is None:
            state.counters.stale_facts += 1
            return
        members = list(agent.members.values())
        if not agent.facts.draining:
            state.counters.agents_lost += 1
        state.lag.gone(event.agent)
        state.fleet.remove(agent)
        state.untold.discard(agent.agent_id)
        doomed = [member for member in members if not self._survives(member, now)]
        for group in agent.pinned:
            group.pinned_to = None
        for member in doomed:
            fail_group(state, member.group, FailureKind.AGENT_LOST, "the agent was lost before the answer was complete")
            forget(state, member)
        for group in _open_groups(members, list(agent.pinned)):
            place(state, group)
        self._roll_out()

    def on_desired_state_changed(self, event: DesiredStateChanged, now: float) -> None:
        state = self._state
        if event.revision != state.wanted_revision:
            state.wanted_revision = event.revision
            state.untold = {agent.agent_id for agent in state.fleet}
            state.lag.wanted(event.revision, ((agent.agent_id, agent.facts) for agent in state.fleet), now)
            self._roll_out()

    def _survives(self, member: Member, now: float) -> bool:
        """Take a member off its lost agent; whether it waits for another one now."""
        state = self._state
        leave_agent(state, member)
        can_start_again = (
            member.phase is MemberPhase.RUNNING
            and not member.has_delivered
            and member.deaths < state.settings.max_deaths
        )
        if can_start_again:
            member.deaths += 1
            state.counters.requeues_after_death += 1
            member.group.wait_again(member)
            restart_deadline(state, member.group, now)
        return can_start_again

    def _roll_out(self) -> None:
        state = self._state
        if state.untold and state.wanted_revision is not None:
            for agent_id in agents_to_tell(state.fleet, state.wanted_revision):
                agent = state.fleet.get(agent_id)
                assert agent is not None
                self._tell(agent, state.wanted_revision)

    def _tell(self, agent: AgentRecord, revision: int) -> None:
        tell(agent, revision)
        self._state.untold.discard(agent.agent_id)
        self._state.actions.append(SendState(agent.agent_id, revision))


def _open_groups(members: list[Member], pinned: list[Group]) -> list[Group]:
    """Each once, in the order of first mention."""
    groups = dict.fromkeys([*(member.group for member in members), *pinned])
    return [group for group in groups if group.is_open]
