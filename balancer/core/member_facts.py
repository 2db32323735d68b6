"""What follows from what agents say about one member."""

from balancer.core.actions import FinishMember, ReclaimSlot
from balancer.core.events import (
    FirstItem,
    MemberAccepted,
    MemberBroken,
    MemberBusy,
    MemberEnded,
    MemberRefused,
    MemberSilent,
)
from balancer.core.groups import Member, MemberPhase
from balancer.core.placement import (
    complete_if_done,
    fail_group,
    fail_group_with,
    forget,
    leave_agent,
    place,
    restart_deadline,
)
from balancer.core.state import MachineState
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason
from shared.identifiers import MemberId


class MemberFactsPart:
    """Handlers of the machine; each changes the state it was given and nothing else."""

    def __init__(self, state: MachineState) -> None:
        self._state = state

    def on_member_accepted(self, event: MemberAccepted, now: float) -> None:
        self._current(event.member, event.attempt)

    def on_first_item(self, event: FirstItem, now: float) -> None:
        member = self._current(event.member, event.attempt)
        if member is not None:
            member.has_delivered = True

    def on_member_busy(self, event: MemberBusy, now: float) -> None:
        """Back to its place, deadline included; and nothing for that agent until something changes there."""
        state = self._state
        member = self._current(event.member, event.attempt)
        if member is None:
            return
        state.counters.busy_answers += 1
        agent = leave_agent(state, member)
        if agent is not None:
            state.fleet.block(agent, now + state.settings.busy_pause_seconds)
        if member.phase is MemberPhase.DRAINING:
            forget(state, member)
        elif member.has_delivered:
            fail_group(state, member.group, FailureKind.AGENT_LOST, "the agent gave the request up half-way")
            forget(state, member)
        else:
            state.counters.requeues_after_busy += 1
            member.group.wait_again(member)
            place(state, member.group)

    def on_member_refused(self, event: MemberRefused, now: float) -> None:
        """The request is at fault, so its siblings would be refused as well."""
        member = self._leave_for_good(event.member, event.attempt)
        if member is not None:
            fail_group_with(self._state, member.group, event.failure)
            forget(self._state, member)

    def on_member_ended(self, event: MemberEnded, now: float) -> None:
        state = self._state
        member = self._leave_for_good(event.member, event.attempt)
        if member is None:
            return
        group = member.group
        failure = event.failure
        if failure is None and event.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH):
            failure = Failure(FailureKind.INTERNAL, "the agent stopped the request without being asked to")
        if member.phase is MemberPhase.DRAINING:
            forget(state, member)
        elif failure is not None:
            fail_group_with(state, group, failure)
            forget(state, member)
        else:
            assert event.finish_reason is not None
            state.actions.append(
                FinishMember(group.group, member.member, event.finish_reason, event.usage, event.matched_stop)
            )
            forget(state, member)
            restart_deadline(state, group, now)
            complete_if_done(state, group)

    def on_member_silent(self, event: MemberSilent, now: float) -> None:
        """First the client is told and the agent asked to stop; after a second silence the slot is free for us."""
        state = self._state
        member = self._current(event.member, event.attempt)
        if member is None:
            return
        if member.phase is MemberPhase.RUNNING:
            fail_group(state, member.group, FailureKind.AGENT_SILENT, "the agent sent nothing for too long")
            return
        assert member.agent is not None
        state.counters.slots_reclaimed += 1
        state.actions.append(ReclaimSlot(member.group.group, member.member, member.agent))
        leave_agent(state, member)
        forget(state, member)

    def on_member_broken(self, event: MemberBroken, now: float) -> None:
        """The slot stays taken until the agent confirms the cancellation."""
        member = self._current(event.member, event.attempt)
        if member is not None:
            fail_group_with(self._state, member.group, event.failure)

    def _current(self, member_id: MemberId, attempt: int) -> Member | None:
        """The member if this is about its present attempt on an agent; else the fact is stale."""
        member = self._state.members.get(member_id)
        if member is None or member.attempt != attempt or member.phase is MemberPhase.WAITING:
            self._state.counters.stale_facts += 1
            return None
        return member

    def _leave_for_good(self, member_id: MemberId, attempt: int) -> Member | None:
        """Free the slot of a member that the agent is done with; that is also news about the agent."""
        member = self._current(member_id, attempt)
        if member is not None:
            agent = leave_agent(self._state, member)
            if agent is not None:
                self._state.fleet.unblock(agent)
        return member
