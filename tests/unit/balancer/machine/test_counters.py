"""What the machine counts of agents and of generations that had to start again."""

from balancer.core.events import DesiredStateChanged
from tests.support.machine_driver import MachineDriver


def test_an_agent_that_did_not_say_that_it_leaves_is_lost(drive: MachineDriver) -> None:
    drive.join("a")
    drive.join("b")
    drive.status("b", draining=True)
    drive.lose("a")
    drive.lose("b")
    drive.lose("b")
    assert drive.machine.statistics().counters.agents_lost == 1


def test_a_state_that_an_agent_puts_in_force_is_counted_once(drive: MachineDriver) -> None:
    drive.join("a", applied_revision=1)
    for revision in (1, None, None, 2, 2, None, 3):
        drive.status("a", applied_revision=revision)
    assert drive.machine.statistics().counters.states_applied == 2


def test_generations_that_start_again_are_counted_by_the_reason(drive: MachineDriver) -> None:
    drive.join("a")
    _, member, _ = drive.arrive_one()
    drive.busy(member)
    drive.wait(1.0)
    assert drive.attempts[member] == 2
    drive.lose("a")
    drive.join("b")
    assert drive.attempts[member] == 3
    counters = drive.machine.statistics().counters
    assert (counters.requeues_after_busy, counters.requeues_after_death) == (1, 1)


def test_the_wait_for_a_state_begins_when_it_is_wanted(drive: MachineDriver) -> None:
    drive.join("a", applied_revision=0)
    drive.tell(DesiredStateChanged(1))
    asked_at = drive.now
    drive.wait(5.0)
    assert drive.machine.statistics().behind_since == asked_at
    drive.status("a", applied_revision=1)
    assert drive.machine.statistics().behind_since is None
    drive.join("b", applied_revision=None)
    assert drive.machine.statistics().behind_since == drive.now
    drive.lose("b")
    assert drive.machine.statistics().behind_since is None
