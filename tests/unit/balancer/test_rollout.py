"""Waves: at least half of the slots keep serving, and never does a rollout stand still for one agent that cannot."""

import pytest

from balancer.core import events
from balancer.core.events import AgentFacts
from balancer.core.fleet import AgentRecord
from balancer.core.rollout import agents_to_tell, is_under_way, tell
from shared.identifiers import AgentId
from tests.support.machine_driver import MachineDriver, told

WANTED = 2


def agent(name: str, slots: int = 4, *, knows: int | None = 1, **facts: object) -> AgentRecord:
    made = AgentRecord(AgentId(name), name, AgentFacts(slots, **{"applied_revision": 1, **facts}))  # type: ignore[arg-type]
    made.told_revision = knows
    return made


def test_of_four_equal_agents_two_are_told_and_two_go_on_serving() -> None:
    fleet = [agent(name) for name in "abcd"]
    assert agents_to_tell(fleet, WANTED) == ["a", "b"]


def test_a_single_agent_is_told_although_that_is_the_whole_fleet() -> None:
    assert agents_to_tell([agent("a")], WANTED) == ["a"]


def test_the_large_agent_goes_alone() -> None:
    assert agents_to_tell([agent("a", 10), agent("b", 2), agent("c", 2)], WANTED) == ["a"]


def test_nobody_else_is_told_while_the_wave_is_under_way() -> None:
    fleet = [agent(name) for name in "ab"]
    tell(fleet[0], WANTED)
    fleet[0].facts = AgentFacts(0, accepting=False, applied_revision=None, is_exchanging=True)
    assert agents_to_tell(fleet, WANTED) == []
    fleet[0].facts = AgentFacts(4, applied_revision=WANTED)
    assert agents_to_tell(fleet, WANTED) == ["b"]


def test_agents_that_serve_nothing_are_told_at_once() -> None:
    fleet = [agent("a"), agent("b"), agent("idle", 0), agent("new", 0, knows=None)]
    assert agents_to_tell(fleet, WANTED) == ["idle", "new", "a"]


def test_an_agent_that_could_not_apply_it_is_done() -> None:
    fleet = [agent("a", knows=WANTED, has_failed_to_apply=True), agent("b")]
    assert not is_under_way(fleet[0])
    assert agents_to_tell(fleet, WANTED) == ["b"]


def test_one_under_way_to_an_older_state_is_told_the_newest_at_once() -> None:
    fleet = [agent("a", knows=2, is_exchanging=True), agent("b")]
    assert agents_to_tell(fleet, 3) == ["a"]


def test_the_idle_agent_comes_before_the_busy_one() -> None:
    busy, idle = agent("a"), agent("b")
    busy.members = {1: None}  # type: ignore[dict-item]
    assert agents_to_tell([busy, idle], WANTED) == ["b"]


def test_agents_about_to_end_are_told_nothing_and_do_not_count() -> None:
    assert agents_to_tell([agent("a", draining=True), agent("b")], WANTED) == ["b"]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10])
def test_the_whole_fleet_gets_there_in_waves_and_half_of_it_serves_all_the_time(count: int) -> None:
    drive = MachineDriver()
    names = [f"agent-{number}" for number in range(count)]
    drive.tell(events.DesiredStateChanged(1))
    for name in names:
        assert told(drive.join(name, 2, applied_revision=1)) == [name]
    wave = told(drive.tell(events.DesiredStateChanged(2)))
    reached: list[str] = []
    while wave:
        assert len(wave) <= max(1, count // 2)
        for name in wave:
            drive.status(name, 0, accepting=False, applied_revision=None, is_exchanging=True)
        exchanging = drive.machine.statistics().slots_total
        assert exchanging >= count if count > 1 else exchanging == 0
        reached += wave
        wave = [one for name in wave for one in told(drive.status(name, 2, applied_revision=2))]
    assert sorted(reached) == sorted(names)


def test_a_joining_agent_gets_the_present_state_at_once_even_in_the_middle_of_a_wave() -> None:
    drive = MachineDriver()
    drive.tell(events.DesiredStateChanged(1))
    for name in ("a", "b"):
        drive.join(name, 1, applied_revision=1)
    assert told(drive.tell(events.DesiredStateChanged(2))) == ["a"]
    assert told(drive.join("c", 1, applied_revision=1)) == ["c"]


def test_the_loss_of_the_one_under_way_lets_the_next_one_go() -> None:
    drive = MachineDriver()
    drive.tell(events.DesiredStateChanged(1))
    for name in ("a", "b"):
        drive.join(name, 1, applied_revision=1)
    drive.tell(events.DesiredStateChanged(2))
    assert told(drive.lose("a")) == ["b"]


def test_the_same_revision_again_is_no_news() -> None:
    drive = MachineDriver()
    drive.join("a")
    assert told(drive.tell(events.DesiredStateChanged(1))) == ["a"]
    assert told(drive.tell(events.DesiredStateChanged(1))) == []
