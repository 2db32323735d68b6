"""What a balancer tells its service manager of itself. Pure.

`systemctl status` shows it to every user of the host, so it names no path and no host.
"""

from balancer import fleet_view
from balancer.core.machine import BalancerStatistics
from balancer.management_services import FleetView
from shared.service_manager import ServiceFacts


def service_facts(
    statistics: BalancerStatistics, fleet: FleetView, *, listens: bool, knows_state: bool
) -> ServiceFacts:
    """Ready when it listens and the state database has answered once; until then clients would only wait."""
    return ServiceFacts(
        status=_status(statistics, fleet, listens=listens, knows_state=knows_state),
        is_ready=listens and knows_state,
    )


def _status(statistics: BalancerStatistics, fleet: FleetView, *, listens: bool, knows_state: bool) -> str:
    if not listens:
        return "starting"
    if not knows_state:
        return "waiting for the state database; the log says why"
    counts = (
        f"{_counted(statistics.agents, 'agent')}, "
        f"{statistics.slots_processing}/{statistics.slots_total} slots busy, "
        f"{statistics.requests_buffered} waiting, revision {fleet.wanted_revision}"
    )
    _, document = fleet_view.readiness(fleet, knows_state=knows_state, is_shutting_down=False)
    return f"{counts}: {document['reason']}" if "reason" in document else counts


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
