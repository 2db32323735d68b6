"""Fleets as the commands for people on call read them: through the balancer's own shaper, so that both stay in step."""

import json
from typing import Any

from balancer import fleet_view
from balancer.console.fleet_snapshot import Fleet, Readiness, Snapshot
from tests.support import fleet_snapshots
from tests.support.fleet_snapshots import Agent

ADDRESS = "127.0.0.1:8060"
MODEL = {"LocalToAgent": "/models/tiny.gguf"}


def fleet(*agents: Agent, wanted: int | None = 1, problem: str | None = None) -> Fleet:
    """As `GET /api/v1/fleet` tells it."""
    document = fleet_view.fleet_document(fleet_snapshots.Fleet(agents, wanted), problem)
    return Fleet.model_validate(json.loads(json.dumps(document)))


def snapshot(
    *agents: Agent, wanted: int | None = 1, waiting: int = 0, problem: str | None = None, **changes: Any
) -> Snapshot:
    """What `status` has asked for; ready as the balancer would call it. `problem`: of the state database."""
    given = fleet_snapshots.Fleet(agents, wanted)
    _, ready = fleet_view.readiness(given, knows_state=wanted is not None, is_shutting_down=False)
    fields: dict[str, Any] = {
        "address": ADDRESS,
        "readiness": Readiness.model_validate(ready),
        "fleet": fleet(*agents, wanted=wanted, problem=problem),
        "requests_waiting": waiting,
        "wanted_model": MODEL,
        **changes,
    }
    return Snapshot(**fields)
