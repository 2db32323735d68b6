"""What the machine tells of itself."""

import pytest

from balancer.core import events
from balancer.core.machine import ImpossibleEvent
from shared.identifiers import AgentId, GroupId, MemberId
from tests.support.machine_driver import MachineDriver


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
