"""What a balancer's line in `systemctl status` says, and when it is ready."""

from balancer.core.machine import Machine
from balancer.core.state import MachineSettings
from balancer.service_status import service_facts
from shared.service_manager import ServiceFacts
from tests.support.fleet_snapshots import Agent, Fleet

NOTHING = Machine(MachineSettings(max_buffered_requests=1, buffered_request_timeout_seconds=1.0)).statistics()


def facts(fleet: Fleet, *, listens: bool = True, knows_state: bool = True) -> ServiceFacts:
    return service_facts(NOTHING, fleet, listens=listens, knows_state=knows_state)


def test_it_is_ready_when_it_listens_and_knows_what_to_serve() -> None:
    assert facts(Fleet()).is_ready
    assert not facts(Fleet(), listens=False).is_ready
    assert not facts(Fleet(), knows_state=False).is_ready


def test_while_it_waits_it_says_for_what() -> None:
    assert facts(Fleet(), listens=False, knows_state=False).status == "starting"
    assert facts(Fleet(), knows_state=False).status == "waiting for the state database; the log says why"


def test_a_fleet_that_serves_is_counted_and_one_that_does_not_has_a_reason() -> None:
    served = facts(Fleet((Agent(),), wanted_revision=7)).status
    assert served == "0 agents, 0/0 slots busy, 0 waiting, revision 7"
    assert facts(Fleet(wanted_revision=7)).status == f"{served}: no agent is connected"
