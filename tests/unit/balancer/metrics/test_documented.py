"""docs/metrics.md lists exactly what `/metrics` shows: names, types and labels."""

import re
from pathlib import Path

from balancer.core.machine import Machine
from balancer.core.state import MachineSettings
from balancer.desired_state_store import StoredState
from balancer.metrics.telemetry import Telemetry
from balancer.settings import BalancerSettings
from balancer.switchboard import Switchboard
from balancer.switchboard_tables import SwitchboardSettings
from shared.desired_state import DEFAULT_DESIRED_STATE
from tests.support.exported import Exported
from tests.support.switchboard_driver import Clock

PAGE = Path(__file__).resolve().parents[4] / "docs" / "metrics.md"
ROW = re.compile(r"\| `(\w+)` \| (counter|gauge|histogram) \| ([\w, ]*)\| ([^|]+) \| ([^|]+) \|")


class Watch:
    """The desired state is known, and the store answers or has a problem."""

    def __init__(self, problem: str | None = None) -> None:
        self.current = StoredState(7, DEFAULT_DESIRED_STATE)
        self.problem = problem


async def exported(watch: Watch, **changes: object) -> Exported:
    """Of a balancer that has just begun, with its desired state in Redis."""
    settings = BalancerSettings.model_validate({"state_database": "redis://127.0.0.1/0", **changes})
    clock = Clock()
    telemetry = Telemetry(settings, clock)
    board = Switchboard(Machine(MachineSettings()), clock, SwitchboardSettings(), telemetry.figures)
    return Exported.of(await telemetry.metrics(board, watch).exposition())


async def test_every_name_is_in_the_table_and_every_name_of_the_table_is_exported() -> None:
    found = await exported(Watch())
    rows = [ROW.fullmatch(line) for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert all(rows), "a row has another form"
    table = {row[1]: (row[2], set(row[3].replace(",", " ").split())) for row in rows if row}
    assert len(table) == len(rows), "a name stands twice"
    shown = {name: (kind, found.labels[name]) for name, kind in found.types.items()}
    assert table == shown


async def test_redis_is_up_or_not_and_not_mentioned_where_there_is_none() -> None:
    assert (await exported(Watch())).value("steersman_redis_up") == 1
    assert (await exported(Watch("it does not answer"))).value("steersman_redis_up") == 0
    assert "steersman_redis_up" not in (await exported(Watch(), state_database="memory://")).types


async def test_the_revision_is_that_of_the_state() -> None:
    assert (await exported(Watch())).value("steersman_desired_state_revision") == 7


async def test_process_figures_are_plausible() -> None:
    found = await exported(Watch())
    assert found.value("process_resident_memory_bytes") > 1e6
    assert found.value("process_open_fds") > 2
    assert found.value("process_start_time_seconds") > 1.7e9


async def test_the_prefix_of_paddlers_gauges_is_a_setting() -> None:
    assert (await exported(Watch(), metrics_prefix="mine_")).value("mine_slots_total") == 0
