"""What is shown of agents."""

from typing import Any

import pytest

from balancer.linked_agents import AgentSnapshot, FleetSnapshot
from balancer.metrics.exposition import Metrics
from balancer.metrics.figure_sums import FigureSums
from balancer.metrics.fleet_families import AgentState, FleetFigures, fleet_families, state_of
from shared.agent_status import AgentIssue, IssueKind
from shared.identifiers import AgentId
from tests.support.agent_figures import figures
from tests.support.agent_statuses import agent_status
from tests.support.exported import Exported

ISSUE = AgentIssue(kind=IssueKind.MODEL_CANNOT_BE_LOADED, detail="it is not a model")
PATIENCE_SECONDS = 30.0


def agent(agent_id: str = "a", *, taken: int = 0, age_seconds: float = 0.25, **status: Any) -> AgentSnapshot:
    """With four slots; `taken` by this balancer, `status` replaces fields."""
    return AgentSnapshot(
        AgentId(agent_id), f"name-{agent_id}", agent_status(**status), taken, "127.0.0.1", age_seconds, "0.1.0"
    )


async def exported(*agents: AgentSnapshot, sums: FigureSums | None = None, by_agent: bool = False) -> Exported:
    sums = sums or FigureSums(by_agent=by_agent)
    labels = tuple(sums.label_of(one.agent_id, one.name) for one in agents) if by_agent else None
    shown = FleetFigures(FleetSnapshot(agents, None, None), sums.statistics(), labels, PATIENCE_SECONDS)
    return Exported.of(await Metrics([lambda: lambda: fleet_families(shown)]).exposition())


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "serving"),
        ({"slots": 0, "accepting": False}, "idle"),
        ({"slots": 0, "accepting": False, "swap_phase": "loading"}, "loading"),
        ({"swap_phase": "proving"}, "loading"),
        ({"issues": [ISSUE]}, "issues"),
        ({"issues": [ISSUE], "swap_phase": "loading"}, "issues"),
        ({"issues": [ISSUE], "last_step_age_seconds": 30.0}, "hanging"),
        ({"last_step_age_seconds": 29.9}, "serving"),
        ({"draining": True, "issues": [ISSUE], "last_step_age_seconds": 99.0}, "draining"),
    ],
)
async def test_an_agent_is_in_exactly_one_state(status: dict[str, Any], state: str) -> None:
    found = (await exported(agent(**status))).by_label("steersman_agents")
    assert found == {(one,): float(one == state) for one in AgentState}


def test_where_silence_has_no_limit_no_engine_hangs() -> None:
    assert state_of(agent(last_step_age_seconds=1e9), 0.0) is AgentState.SERVING


async def test_without_agents_everything_is_zero() -> None:
    found = await exported()
    assert set(found.values.values()) == {0.0}
    assert not any(name.startswith("steersman_agent_") and "heartbeat" not in name for name in found.types)


async def test_slots_that_another_balancer_has_taken_are_not_free() -> None:
    found = await exported(agent("a", taken=1, slots_processing=3), agent("b", taken=2, slots_processing=1))
    assert found.by_label("steersman_slots") == {("processing",): 3, ("free",): 3}


async def test_cells_and_downloads_are_added_up() -> None:
    pool = {"context_cells": 100, "used_cells": 30, "cached_tokens": 10}
    found = await exported(agent("a", **pool), agent("b", **pool, download_current=5, download_total=9))
    assert found.by_label("steersman_fleet_kv_cells") == {("running",): 40, ("cached",): 20, ("free",): 140}
    assert found.by_label("steersman_fleet_model_download_bytes") == {("current",): 5, ("total",): 9}


async def test_the_oldest_heartbeat_counts() -> None:
    found = await exported(agent("a", age_seconds=1.0), agent("b", age_seconds=3.5), agent("c", age_seconds=0.5))
    assert found.value("steersman_agent_heartbeat_age_seconds") == 3.5


async def test_figures_of_agents_become_counters_and_histograms_of_the_fleet() -> None:
    sums = FigureSums()
    sums.heard("a", None, figures())
    sums.heard("a", None, figures(steps=3, step_seconds=(0.004, 0.3), constraints_cached_total=2))
    found = await exported(sums=sums)
    assert found.value("steersman_fleet_engine_steps_total") == 3
    assert found.by_label("steersman_fleet_constraints_total") == {("compiled",): 0, ("cached",): 2, ("refused",): 0}
    assert found.value("steersman_fleet_engine_step_seconds_count") == 2
    assert found.value("steersman_fleet_engine_step_seconds_bucket", le="0.005") == 1
    assert found.value("steersman_fleet_engine_step_seconds_bucket", le="+Inf") == 2


async def test_asked_for_the_same_is_there_by_agent() -> None:
    sums = FigureSums(by_agent=True)
    agents = agent("a", taken=1, slots_processing=1), agent("b")
    for one in agents:
        sums.heard(one.agent_id, one.name, figures())
    sums.heard("a", "name-a", figures(steps=3, constraints_cached_total=2))
    sums.heard("gone", "name-gone", figures())
    found = await exported(*agents, sums=sums, by_agent=True)
    assert found.by_label("steersman_agent_engine_steps_total") == {("name-a",): 3, ("name-b",): 0, ("name-gone",): 0}
    assert found.value("steersman_agent_constraints_total", agent="name-a", result="cached") == 2
    assert found.by_label("steersman_agent_slots") == {
        ("name-a", "free"): 3,
        ("name-a", "processing"): 1,
        ("name-b", "free"): 4,
        ("name-b", "processing"): 0,
    }
    fleet = {name.removeprefix("steersman_fleet_"): kind for name, kind in found.types.items() if "_fleet_" in name}
    by_agent = {name.removeprefix("steersman_agent_"): kind for name, kind in found.types.items() if "_agent_" in name}
    assert by_agent == {**fleet, "slots": "gauge", "heartbeat_age_seconds": "gauge"}


async def test_agents_that_share_a_label_share_its_gauges() -> None:
    sums = FigureSums(by_agent=True)
    sums.heard("a", "name-a", figures())
    found = await exported(agent("a"), agent("b"), agent("c"), sums=sums, by_agent=True)
    assert found.value("steersman_agent_slots", agent="other", state="free") == 8
