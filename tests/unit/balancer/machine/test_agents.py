"""Agents, one sentence each: what they answer, their loss, and when they take no work."""

import pytest

from balancer.core import events
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.identifiers import GroupId, MemberId
from tests.support.machine_driver import MachineDriver, cancelled, dispatched, failures, finished


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
