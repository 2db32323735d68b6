"""The exposition parses, at any moment, with any prefix, and shows exactly the machine's figures (case C31)."""

from functools import partial

import pytest

from balancer.metrics.balancer_families import paddler_families
from balancer.metrics.exposition import Metrics
from shared.metric_families import build_families
from shared.version import PROTOCOL_VERSION
from tests.support.exported import Exported
from tests.support.fleet_snapshots import Statistics


@pytest.mark.parametrize("prefix", ["paddler_", "steersman_", "my_statsd_prefix_", "x", ""])
@pytest.mark.parametrize("figures", [Statistics(), Statistics(0, 1, 0), Statistics(3, 2, 2), Statistics(0, 2, 0)])
async def test_three_gauges_with_the_prefix(prefix: str, figures: Statistics) -> None:
    metrics = Metrics([lambda: partial(paddler_families, figures, prefix), lambda: partial(build_families, "0.1.0")])
    found = Exported.of(await metrics.exposition())
    assert (
        found.values.pop(
            ("steersman_build_info", frozenset({("version", "0.1.0"), ("protocol", str(PROTOCOL_VERSION))}))
        )
        == 1.0
    )
    assert {name: value for (name, _), value in found.values.items()} == {
        f"{prefix}slots_processing": figures.slots_processing,
        f"{prefix}slots_total": figures.slots_total,
        f"{prefix}requests_buffered": figures.requests_buffered,
    }
    assert set(found.types.values()) == {"gauge"}


async def test_each_scrape_reads_anew() -> None:
    figures = [Statistics(1, 1, 1), Statistics(2, 2, 2)]
    metrics = Metrics([lambda: partial(paddler_families, figures.pop(0), "paddler_")])
    assert Exported.of(await metrics.exposition()).value("paddler_slots_total") == 1
    assert Exported.of(await metrics.exposition()).value("paddler_slots_total") == 2


async def test_help_and_type_are_paddlers() -> None:
    text = (await Metrics([lambda: partial(paddler_families, Statistics(), "paddler_")]).exposition()).decode()
    assert "# HELP paddler_slots_processing Number of processing slots\n# TYPE paddler_slots_processing gauge\n" in text
    assert "# HELP paddler_slots_total Number of total slots\n" in text
    assert "# HELP paddler_requests_buffered Number of buffered requests\n" in text
