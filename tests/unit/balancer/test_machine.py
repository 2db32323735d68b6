"""The machine's decisions, one sentence each. The driver checks the invariants after every event."""

from collections.abc import Iterator

import pytest

from balancer.core import events
from balancer.core.actions import ReclaimSlot
from balancer.core.machine import ImpossibleEvent
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.identifiers import AgentId, GroupId, MemberId
from tests.support.machine_driver import MachineDriver, cancelled, dispatched, failures, finished, of_kind


@pytest.fixture
def drive() -> Iterator[MachineDriver]:
    driver = MachineDriver(max_buffered_requests=2, buffered_request_timeout_seconds=10.0)
    yield driver
    driver.machine.check_invariants()


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


class TestTheAgentAnswers:
    def test_busy_takes_the_member_back_to_its_place(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, first, _ = drive.arrive_one()
        _, second, _ = drive.arrive_one()
        assert dispatched(drive.busy(first)) == []
        assert drive.buffered == 2
        assert dispatched(drive.join("b")) == [(first, "b")]
        assert dispatched(drive.join("c")) == [(second, "c")]

    def test_busy_is_no_hot_loop_and_the_same_status_does_not_end_it(self, drive: MachineDriver) -> None:
        drive.join("a")
        drive.arrive_one()
        assert dispatched(drive.busy(MemberId(2))) == []
        assert dispatched(drive.status("a")) == []
        assert dispatched(drive.status("a", slots_processing=1)) == [(MemberId(2), "a")]

    def test_a_busy_agent_is_tried_again_when_one_of_our_members_ends_there(self, drive: MachineDriver) -> None:
        drive.join("a", slots=2)
        _, first, _ = drive.arrive_one()
        _, second, _ = drive.arrive_one()
        drive.busy(second)
        assert dispatched(drive.end(first)) == [(second, "a")]

    def test_a_busy_agent_is_tried_again_after_a_pause(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, member, _ = drive.arrive_one()
        drive.busy(member)
        assert dispatched(drive.wait(0.9)) == []
        assert dispatched(drive.wait(0.1)) == [(member, "a")]

    def test_busy_for_ever_ends_with_waited_too_long(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, member, _ = drive.arrive_one()
        found: dict[GroupId, FailureKind] = {}
        for _ in range(12):
            if not found:
                drive.busy(member)
                found = failures(drive.wait(1.0))
        assert found == {group: FailureKind.WAITED_TOO_LONG}
        assert drive.now <= 1000.0 + 11.0

    def test_who_can_be_served_at_the_last_moment_is(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, member, _ = drive.arrive_one()
        drive.wait(9)
        drive.busy(member)
        actions = drive.wait(1)  # the pause ends as the deadline comes
        assert dispatched(actions) == [(member, "a")]
        assert failures(actions) == {}

    def test_busy_after_tokens_is_a_broken_answer(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, member, _ = drive.arrive_one()
        drive.first_item(member)
        assert failures(drive.busy(member)) == {group: FailureKind.AGENT_LOST}

    def test_after_busy_the_attempt_is_over(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, member, _ = drive.arrive_one()
        drive.busy(member)
        assert finished(drive.end(member)) == []
        assert failures(drive.silent(member)) == {}
        assert (drive.buffered, drive.machine.statistics().counters.stale_facts) == (1, 2)

    def test_refused_fails_the_group_with_its_own_word(self, drive: MachineDriver) -> None:
        drive.join("a", slots=4)
        group, members, _ = drive.arrive(members=3)
        actions = drive.refuse(members[1])
        assert failures(actions) == {group: FailureKind.PROMPT_TOO_LONG}
        assert cancelled(actions) == [members[0], members[2]]
        assert drive.slots == "2/4"

    def test_an_end_without_being_asked_is_a_failure(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, member, _ = drive.arrive_one()
        assert failures(drive.end(member, FinishReason.CANCELLED)) == {group: FailureKind.INTERNAL}

    def test_a_member_that_fails_ends_its_siblings(self, drive: MachineDriver) -> None:
        drive.join("a", slots=2)
        group, members, _ = drive.arrive(members=3)
        assert finished(drive.end(members[0])) == [members[0]]
        actions = drive.break_off(members[1])
        assert failures(actions) == {group: FailureKind.ENGINE_FAILED}
        assert cancelled(actions) == [members[2]]
        drive.end(members[2], FinishReason.CANCELLED)
        assert sorted(drive.forgotten) == sorted(members)

    def test_silence_fails_the_request_and_keeps_the_slot_until_the_agent_confirms(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, member, _ = drive.arrive_one()
        actions = drive.silent(member)
        assert failures(actions) == {group: FailureKind.AGENT_SILENT}
        assert cancelled(actions) == [member]
        assert drive.slots == "1/1"
        drive.end(member, FinishReason.CANCELLED)
        assert drive.slots == "0/1"

    def test_facts_of_another_attempt_are_counted_and_change_nothing(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, member, _ = drive.arrive_one()
        drive.lose("a")
        drive.join("b")
        before = drive.machine.statistics()
        assert drive.tell(events.FirstItem(member, 1)) == []
        assert drive.tell(events.MemberBusy(member, 1)) == []
        after = drive.machine.statistics()
        assert after.counters.stale_facts == before.counters.stale_facts + 2
        assert after.slots_processing == 1


class TestTheAgentIsLost:
    def test_what_delivered_nothing_goes_to_the_head_of_the_room(self, drive: MachineDriver) -> None:
        drive.join("a")
        _, member, _ = drive.arrive_one()
        _, waiting, _ = drive.arrive_one()
        assert failures(drive.lose("a")) == {}
        assert drive.buffered == 2
        assert dispatched(drive.join("b")) == [(member, "b")]
        assert dispatched(drive.end(member)) == [(waiting, "b")]

    def test_it_gets_a_fresh_deadline_and_stands_outside_the_bound(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, _, _ = drive.arrive_one()
        drive.wait(9)
        newer = [drive.arrive_one()[0] for _ in range(2)]
        drive.lose("a")
        assert drive.buffered == 3
        refused, _, actions = drive.arrive_one()
        assert failures(actions) == {refused: FailureKind.BUFFER_FULL}
        drive.wait(2)
        assert drive.buffered == 3
        assert list(failures(drive.wait(8))) == [group, *newer]

    def test_it_turns_nobody_away(self, drive: MachineDriver) -> None:
        drive.join("a")
        drive.arrive_one()
        drive.lose("a")
        assert [failures(drive.arrive_one()[2]) for _ in range(2)] == [{}, {}]
        assert drive.buffered == 3

    def test_what_delivered_something_fails(self, drive: MachineDriver) -> None:
        drive.join("a", slots=2)
        group, delivered, _ = drive.arrive_one()
        _, other, _ = drive.arrive_one()
        drive.first_item(delivered)
        actions = drive.lose("a")
        assert failures(actions) == {group: FailureKind.AGENT_LOST}
        assert drive.forgotten == [delivered]
        assert dispatched(drive.join("b")) == [(other, "b")]

    def test_a_second_death_fails_the_request(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, _, _ = drive.arrive_one()
        drive.lose("a")
        drive.join("b")
        assert failures(drive.lose("b")) == {group: FailureKind.AGENT_LOST}
        assert drive.machine.is_idle

    def test_what_drains_there_is_forgotten(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, member, _ = drive.arrive_one()
        drive.leave(group)
        drive.lose("a")
        assert drive.forgotten == [member]
        assert drive.machine.is_idle

    def test_a_failed_sibling_takes_the_requeued_ones_along(self, drive: MachineDriver) -> None:
        drive.join("a", slots=2)
        group, members, _ = drive.arrive(members=3)
        drive.first_item(members[1])
        assert failures(drive.lose("a")) == {group: FailureKind.AGENT_LOST}
        assert sorted(drive.forgotten) == sorted(members)
        assert drive.machine.is_idle


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


class TestAgentsThatTakeNoWork:
    @pytest.mark.parametrize("facts", [{"accepting": False}, {"draining": True}, {"engine_hangs": True}, {"slots": 0}])
    def test_they_get_none_but_keep_what_they_have(self, drive: MachineDriver, facts: dict[str, object]) -> None:
        drive.join("a", slots=2)
        _, member, _ = drive.arrive_one()
        drive.status("a", **{"slots": 2, **facts})  # type: ignore[arg-type]
        _, waiting, actions = drive.arrive_one()
        assert dispatched(actions) == []
        assert finished(drive.end(member)) == [member]
        assert dispatched(drive.status("a", slots=2, slots_processing=1)) == [(waiting, "a")]


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


class TestTheStory:
    def test_it_tells_what_happened_to_one_request_and_only_to_it(self, drive: MachineDriver) -> None:
        drive.join("a")
        group, member, _ = drive.arrive_one()
        other, _, _ = drive.arrive_one()
        drive.accept(member)
        drive.wait(2)
        drive.end(member)
        story = drive.machine.story(f"request-{group}")
        assert story is not None
        assert "Dispatch(member=2, agent=a, attempt=1)" in story[0]
        assert "MemberAccepted" in story[1]
        assert story[2].startswith("+2.000s MemberEnded")
        assert "Dispatch" not in story[2]
        assert "Dispatch(member=4" in (drive.machine.story(f"request-{other}") or ("",))[-1]

    def test_unknown_requests_have_none(self, drive: MachineDriver) -> None:
        assert drive.machine.story("nobody") is None

    def test_an_impossible_event_is_told_with_the_story_and_changes_nothing(self, drive: MachineDriver) -> None:
        drive.join("a")
        drive.arrive_one()
        with pytest.raises(ImpossibleEvent, match=r"joined twice(.|\n)*RequestArrived"):
            drive.join("a")
        with pytest.raises(ImpossibleEvent, match="came before"):
            drive.tell(events.RequestArrived(GroupId(1), "again", (MemberId(99),)))
        with pytest.raises(ImpossibleEvent, match="no members"):
            drive.tell(events.RequestArrived(GroupId(50), "empty", ()))
        assert drive.slots == "1/1"


def test_the_repr_is_a_dashboard_line(drive: MachineDriver) -> None:
    drive.join("a", slots=2)
    for _ in range(3):
        drive.arrive_one()
    assert (
        repr(drive.machine) == "<Machine <Fleet 1 agents | 2/2 slots busy> <WaitingRoom 1 buffered | 1 in line> 3 open>"
    )


def test_facts_about_strangers_are_stale(drive: MachineDriver) -> None:
    drive.lose("nobody")
    drive.status("nobody")
    drive.tell(events.MemberSilent(MemberId(7), 1))
    assert drive.machine.statistics().counters.stale_facts == 3
    assert drive.tell(events.ClientLeft(GroupId(9))) == []
    assert drive.tell(events.ConsumerTooSlow(GroupId(9))) == []
    assert drive.machine.slots_processing() == {}
    assert AgentId("nobody") not in drive.machine.slots_processing()
