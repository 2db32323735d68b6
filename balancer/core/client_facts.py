"""What follows from what clients, the operator's shutdown and the clock do."""

from balancer.core.events import (
    ClientLeft,
    ConsumerTooSlow,
    RequestArrived,
    ShutdownBegun,
    ShutdownEnds,
    TimePassed,
)
from balancer.core.groups import Group, Member
from balancer.core.matching import match
from balancer.core.placement import close_group, fail_group, place
from balancer.core.state import MachineState
from balancer.core.story import Story
from shared.failures import FailureKind


class ClientFactsPart:
    """Handlers of the machine; each changes the state it was given and nothing else."""

    def __init__(self, state: MachineState, story: Story) -> None:
        self._state = state
        self._story = story

    def on_request_arrived(self, event: RequestArrived, now: float) -> None:
        """Match first, then check the room: a room of size 0 still serves when a slot is free."""
        state = self._state
        group = self._admit(event, now)
        if state.is_shutting_down:
            fail_group(state, group, FailureKind.SHUTTING_DOWN, "balancer is shutting down")
            return
        match(state)
        if group.is_buffered and state.room.counted > state.settings.max_buffered_requests:
            fail_group(
                state, group, FailureKind.BUFFER_FULL, "Buffered requests overflow: no slot is free, try again later"
            )

    def on_client_left(self, event: ClientLeft, now: float) -> None:
        group = self._state.groups.get(event.group)
        if group is not None:
            self._state.counters.groups_left += 1
            close_group(self._state, group)

    def on_consumer_too_slow(self, event: ConsumerTooSlow, now: float) -> None:
        group = self._state.groups.get(event.group)
        if group is not None:
            message = "the client took its answer too slowly (slow_consumer)"
            fail_group(self._state, group, FailureKind.SLOW_CONSUMER, message)

    def on_time_passed(self, event: TimePassed, now: float) -> None:
        state = self._state
        state.fleet.unblock_due(now)
        match(state)  # who can be served at the last moment is
        for group in state.room.overdue(now):
            fail_group(state, group, FailureKind.WAITED_TOO_LONG, "no slot became free in time")
        if state.shutdown_deadline is not None and state.shutdown_deadline <= now:
            self._fail_the_rest()

    def on_shutdown_begun(self, event: ShutdownBegun, now: float) -> None:
        self._state.is_shutting_down = True
        self._state.shutdown_deadline = event.deadline

    def on_shutdown_ends(self, event: ShutdownEnds, now: float) -> None:
        self._state.is_shutting_down = True
        self._fail_the_rest()

    def _fail_the_rest(self) -> None:
        self._state.shutdown_deadline = None
        for group in list(self._state.groups.values()):
            fail_group(self._state, group, FailureKind.SHUTTING_DOWN, "balancer is shutting down")

    def _admit(self, event: RequestArrived, now: float) -> Group:
        state = self._state
        state.counters.groups_opened += 1
        group = Group(
            group=event.group,
            request_id=event.request_id,
            priority=event.priority,
            arrival=state.counters.groups_opened,
            prefix_hashes=event.prefix_hashes,
            deadline=now + state.settings.buffered_request_timeout_seconds,
        )
        for member_id in event.members:
            member = Member(member_id, group)
            state.members[member_id] = member
            group.wait_again(member)
        state.groups[event.group] = group
        self._story.begin(event.request_id, event.group)
        place(state, group)
        return group
