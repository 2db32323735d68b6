from balancer.core.events import AgentFacts
from balancer.core.fleet import AgentRecord, Fleet
from balancer.core.groups import Group, Member
from shared.identifiers import AgentId, GroupId, MemberId


def agent(name: str, slots: int = 1, **facts: object) -> AgentRecord:
    return AgentRecord(AgentId(name), name, AgentFacts(slots, **facts))  # type: ignore[arg-type]


def member(number: int) -> Member:
    return Member(MemberId(number), Group(GroupId(number), f"r{number}", 0, number, (), 0.0))


def fleet_of(*agents: AgentRecord) -> Fleet:
    fleet = Fleet()
    for one in agents:
        fleet.add(one)
    return fleet


def test_work_is_spread_by_share_and_a_full_fleet_offers_nobody() -> None:
    a, b = agent("a", 2), agent("b", 1)
    fleet = fleet_of(a, b)
    order = []
    for number in range(3):
        free = fleet.least_busy()
        assert free is not None
        order.append(free.agent_id)
        fleet.take_slot(free, member(number))
    assert order == ["a", "b", "a"]
    assert fleet.least_busy() is None
    assert repr(fleet) == "<Fleet 2 agents | 3/3 slots busy>"


def test_a_slot_is_free_once_its_member_has_left() -> None:
    a = agent("a")
    fleet = fleet_of(a)
    one = member(1)
    fleet.take_slot(a, one)
    assert fleet.free_slot(one) is a
    assert one.agent is None
    assert fleet.least_busy() is a
    assert fleet.free_slot(one) is None


def test_a_blocked_agent_is_offered_again_when_something_changes_or_its_time_comes() -> None:
    a = agent("a")
    fleet = fleet_of(a)
    fleet.block(a, until=5.0)
    assert (fleet.least_busy(), fleet.next_deadline()) == (None, 5.0)
    fleet.unblock_due(4.9)
    assert fleet.least_busy() is None
    fleet.unblock_due(5.0)
    assert (fleet.least_busy(), fleet.next_deadline()) == (a, None)
    fleet.block(a, until=9.0)
    fleet.unblock(a)
    assert (fleet.least_busy(), fleet.next_deadline()) == (a, None)


def test_who_is_not_in_service_is_not_offered() -> None:
    for facts in ({"accepting": False}, {"draining": True}, {"engine_hangs": True}):
        assert fleet_of(agent("a", 2, **facts)).least_busy() is None
    assert fleet_of(agent("a", 0)).least_busy() is None


def test_a_lost_agent_is_offered_no_more() -> None:
    a = agent("a")
    fleet = fleet_of(a)
    fleet.block(a, until=1.0)
    fleet.remove(a)
    assert (fleet.least_busy(), fleet.next_deadline(), len(fleet), fleet.get(AgentId("a"))) == (None, None, 0, None)


def test_a_group_pinned_to_an_agent_is_named_when_a_slot_frees_up() -> None:
    a = agent("a")
    fleet = fleet_of(a)
    one, other = member(1), member(2)
    fleet.take_slot(a, one)
    fleet.pin(other.group, a)
    assert fleet.next_agent_with_pins() is None
    fleet.free_slot(one)
    assert fleet.next_agent_with_pins() is a
    fleet.unpin(other.group)
    assert fleet.next_agent_with_pins() is None
