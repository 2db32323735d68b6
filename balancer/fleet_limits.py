"""What any agent that serves the wanted state could take, so that a request which fits none is refused at once. Pure.

Agents have the last word; this only spares a batch from failing half-way for what could be known before.
"""

from dataclasses import dataclass

from balancer.management_services import FleetView


@dataclass(frozen=True, slots=True)
class FleetLimits:
    """None: nobody has said. `request_tokens`: prompt and answer together."""

    request_tokens: int | None = None
    vocabulary_size: int | None = None


def fleet_limits(fleet: FleetView) -> FleetLimits:
    """The largest of each; of agents that still serve another state nothing is known."""
    statuses = [
        agent.status
        for agent in fleet.agents
        if agent.status.slots_total > 0 and agent.status.applied_revision == fleet.wanted_revision
    ]
    return FleetLimits(
        request_tokens=max((status.request_limit_tokens for status in statuses), default=0) or None,
        vocabulary_size=max((status.vocabulary_size for status in statuses), default=0) or None,
    )
