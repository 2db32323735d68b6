"""Requests and their clients, one sentence each: the room, groups, leaving, the end of the balancer."""

from balancer.core import events
from balancer.core.actions import ReclaimSlot
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.identifiers import GroupId
from tests.support.machine_driver import MachineDriver, cancelled, dispatched, failures, finished, of_kind


class TestTheRoom:
    def test_a_request_waits_for_the_first_agent_and_runs_when_it_joins(self, drive: MachineDriver) -> None:
        _, member, actions = drive.arrive_one()
        assert dispatched(actions) == []
        assert drive.buffered == 1
        assert dispatched(drive.join("a")) == [(member, "a")]
        assert drive.buffered == 0

    def test_a_full_room_refuses_at_once(self, drive: MachineDriver) -> None:
        drive.join("a")
        for _ in range(3):
            drive.arrive_one()
        group, _, actions = drive.arrive_one()
        assert failures(actions) == {group: FailureKind.BUFFER_FULL}
        assert drive.buffered == 2

    def test_a_room_of_size_zero_still_serves_when_a_slot_is_free(self) -> None:
        drive = MachineDriver(max_buffered_requests=0)
        drive.join("a")
        _, member, actions = drive.arrive_one()
        assert dispatched(actions) == [(member, "a")]
        group, _, actions = drive.arrive_one()
        assert failures(actions) == {group: FailureKind.BUFFER_FULL}
        assert drive.buffered == 0

    def test_a_request_that_waits_too_long_fails_and_leaves_the_room(self, drive: MachineDriver) -> None:
        group, _, _ = drive.arrive_one()
        assert failures(drive.wait(9.9)) == {}
        assert failures(drive.wait(0.1)) == {group: FailureKind.WAITED_TOO_LONG}
        assert drive.buffered == 0

    def test_only_those_that_are_due_fail(self, drive: MachineDriver) -> None:
        first, _, _ = drive.arrive_one()
        drive.wait(4)
        second, _, _ = drive.arrive_one()
        assert list(failures(drive.wait(6))) == [first]
        assert list(failures(drive.wait(4))) == [second]

    def test_eight_requests_on_four_slots_are_all_served_and_ten_are_not(self) -> None:
        drive = MachineDriver(max_buffered_requests=4)
        drive.join("a", slots=4)
        arrived = [drive.arrive_one() for _ in range(10)]
        assert [list(failures(actions).values()) for _, _, actions in arrived[8:]] == [
            [FailureKind.BUFFER_FULL],
            [FailureKind.BUFFER_FULL],
        ]
        for _, member, _ in arrived[:8]:
            assert finished(drive.end(member)) == [member]
        assert drive.buffered == 0
        assert drive.slots == "0/4"

    def test_first_come_first_served(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, running, _ = drive.arrive_one()
        _, first, _ = drive.arrive_one()
        _, second, _ = drive.arrive_one()
        assert dispatched(drive.end(running)) == [(first, "a")]
        assert dispatched(drive.end(first)) == [(second, "a")]

    def test_a_larger_priority_goes_first(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, running, _ = drive.arrive_one()
        _, usual, _ = drive.arrive_one()
        _, urgent, _ = drive.arrive_one(priority=5)
        assert dispatched(drive.end(running)) == [(urgent, "a")]
        assert dispatched(drive.end(urgent)) == [(usual, "a")]


class TestTheClientLeaves:
    def test_while_it_waits_it_vanishes(self, drive: MachineDriver) -> None:
        group, member, _ = drive.arrive_one()
        drive.leave(group)
        assert drive.forgotten == [member]
        assert drive.buffered == 0
        assert dispatched(drive.join("a")) == []

    def test_while_it_runs_only_the_agents_end_frees_the_slot(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, member, _ = drive.arrive_one()
        _, waiting, _ = drive.arrive_one()
        actions = drive.leave(group)
        assert cancelled(actions) == [member]
        assert dispatched(actions) == []
        assert drive.slots == "1/1"
        actions = drive.end(member, FinishReason.CANCELLED)
        assert finished(actions) == []
        assert dispatched(actions) == [(waiting, "a")]

    def test_a_second_time_nothing_happens(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, _, _ = drive.arrive_one()
        drive.leave(group)
        assert drive.leave(group) == []

    def test_an_agent_that_never_confirms_loses_its_claim_on_the_slot(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, member, _ = drive.arrive_one()
        _, waiting, _ = drive.arrive_one()
        drive.leave(group)
        actions = drive.silent(member)
        assert [action.member for action in of_kind(actions, ReclaimSlot)] == [member]
        assert dispatched(actions) == [(waiting, "a")]

    def test_a_slow_consumer_is_cancelled_like_one_that_left(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, member, _ = drive.arrive_one()
        actions = drive.tell(events.ConsumerTooSlow(group))
        assert failures(actions) == {group: FailureKind.SLOW_CONSUMER}
        assert cancelled(actions) == [member]
        assert drive.slots == "1/1"
        story = drive.machine.story(f"request-{group}")
        assert story is not None
        assert "slow_consumer" in story[-1]


class TestGroups:
    def test_a_group_counts_once_and_goes_to_one_agent_as_its_slots_free_up(self, drive: MachineDriver) -> None:
        drive.join("a", slots=2)
        drive.join("b", slots=1)
        _, members, actions = drive.arrive(members=4)
        assert dispatched(actions) == [(members[0], "a"), (members[1], "a")]
        assert drive.buffered == 0
        assert dispatched(drive.end(members[0])) == [(members[2], "a")]
        assert dispatched(drive.end(members[2])) == [(members[3], "a")]

    def test_a_waiting_group_of_many_counts_as_one(self, drive: MachineDriver) -> None:
        drive.arrive(members=4)
        drive.arrive(members=4)
        assert drive.buffered == 2

    def test_a_more_important_group_takes_the_next_slot_of_the_agent(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, members, _ = drive.arrive(members=2)
        _, urgent, _ = drive.arrive_one(priority=1)
        assert dispatched(drive.end(members[0])) == [(urgent, "a")]
        assert drive.buffered == 1  # nothing of the group runs now: it waits, with a deadline
        assert dispatched(drive.end(urgent)) == [(members[1], "a")]

    def test_when_the_agent_stops_taking_work_the_rest_may_go_elsewhere(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, members, _ = drive.arrive(members=2)
        drive.join("b")
        assert drive.slots == "1/2"
        assert dispatched(drive.status("a", accepting=False)) == [(members[1], "b")]

    def test_its_own_agent_serves_it_before_those_that_came_later_and_after_the_urgent(
        self, drive: MachineDriver
    ) -> None:
        drive.join("a", slots=2)
        _, members, _ = drive.arrive(members=4)
        _, later, _ = drive.arrive_one()
        assert dispatched(drive.end(members[0])) == [(members[2], "a")]
        _, urgent, _ = drive.arrive_one(priority=1)
        assert dispatched(drive.end(members[1])) == [(urgent, "a")]
        assert dispatched(drive.end(urgent)) == [(members[3], "a")]
        assert dispatched(drive.end(members[2])) == [(later, "a")]

    def test_one_that_has_to_wait_again_may_wait_in_full(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, members, _ = drive.arrive(members=2)
        _, urgent, _ = drive.arrive_one(priority=1)
        drive.wait(5)
        drive.end(members[0])
        assert failures(drive.wait(9)) == {}
        assert failures(drive.wait(1)) == {group: FailureKind.WAITED_TOO_LONG}
        drive.end(urgent)

    def test_leaving_cancels_what_runs_and_forgets_what_waits(self, drive: MachineDriver) -> None:
        drive.join("a", slots=2)
        group, members, _ = drive.arrive(members=3)
        assert cancelled(drive.leave(group)) == list(members[:2])
        assert drive.forgotten == [members[2]]


class TestShutdown:
    def test_what_waits_and_runs_goes_on_until_the_deadline(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, running, _ = drive.arrive_one()
        _, waiting, _ = drive.arrive_one()
        drive.tell(events.ShutdownBegun(drive.now + 5))
        assert dispatched(drive.end(running)) == [(waiting, "a")]
        group = GroupId(3)
        actions = drive.wait(5)
        assert failures(actions) == {group: FailureKind.SHUTTING_DOWN}
        assert cancelled(actions) == [waiting]

    def test_what_comes_later_is_refused(self, drive: MachineDriver) -> None:
        drive.join("a")
        drive.tell(events.ShutdownBegun(drive.now + 5))
        group, _, actions = drive.arrive_one()
        assert failures(actions) == {group: FailureKind.SHUTTING_DOWN}
        assert drive.machine.is_idle

    def test_a_second_signal_ends_everything_at_once(self, drive: MachineDriver) -> None:
        drive.join("a")
        for _ in range(3):
            drive.arrive_one()
        drive.tell(events.ShutdownBegun(drive.now + 60))
        assert set(failures(drive.tell(events.ShutdownEnds())).values()) == {FailureKind.SHUTTING_DOWN}
        assert drive.machine.next_deadline() is None
