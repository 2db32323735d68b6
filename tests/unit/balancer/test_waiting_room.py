from balancer.core.groups import Group, Member
from balancer.core.waiting_room import WaitingRoom
from shared.identifiers import AgentId, GroupId, MemberId


def group(number: int, *, deadline: float = 10.0, priority: int = 0, waiting: int = 1) -> Group:
    made = Group(GroupId(number), f"r{number}", priority, number, (), deadline)
    for index in range(waiting):
        made.wait_again(Member(MemberId(100 * number + index), made))
    return made


def start(one: Group) -> None:
    member = one.waiting.pop(0)
    one.running[member.member] = member


def test_groups_stand_in_order_of_priority_then_arrival() -> None:
    room = WaitingRoom()
    first, second, urgent = group(1), group(2), group(3, priority=1)
    for one in (second, first, urgent):
        room.update(one)
    assert room.first() is urgent
    urgent.is_open = False
    room.update(urgent)
    assert room.first() is first


def test_a_group_of_which_something_runs_has_no_deadline_and_is_not_buffered() -> None:
    room = WaitingRoom()
    one = group(1, waiting=2)
    room.update(one)
    assert (room.buffered, room.counted, room.next_deadline()) == (1, 1, 10.0)
    start(one)
    room.update(one)
    assert (room.buffered, room.counted, room.next_deadline()) == (0, 0, None)
    assert room.first() is one  # its other member still wants a slot


def test_a_group_that_waits_for_one_agent_is_not_offered_to_others() -> None:
    room = WaitingRoom()
    one = group(1, waiting=2)
    start(one)
    one.pinned_to = AgentId("a")
    room.update(one)
    assert room.first() is None


def test_overdue_groups_come_longest_wait_first() -> None:
    room = WaitingRoom()
    early, late, fine = group(1, deadline=3.0), group(2, deadline=2.0), group(3, deadline=9.0)
    for one in (early, late, fine):
        room.update(one)
    assert room.overdue(1.9) == []
    assert room.overdue(3.0) == [late, early]


def test_groups_that_were_served_before_do_not_count_against_the_bound() -> None:
    room = WaitingRoom()
    again, new = group(1), group(2)
    again.outside_bound = True
    room.update(again)
    room.update(new)
    assert (room.buffered, room.counted) == (2, 1)
    assert repr(room) == "<WaitingRoom 2 buffered | 2 in line>"
