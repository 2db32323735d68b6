"""The exposition parses, at any moment, with any prefix, and shows exactly the machine's figures (case C31)."""

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from balancer.metrics import CONTENT_TYPE, Metrics
from tests.support.fleet_snapshots import Statistics


def samples(text: bytes) -> dict[str, tuple[str, float]]:
    """Name to type and value, by the parser of the Prometheus client library."""
    return {
        sample.name: (family.type, sample.value)
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize("prefix", ["paddler_", "steersman_", "my_statsd_prefix_", "x", ""])
@pytest.mark.parametrize("figures", [Statistics(), Statistics(0, 1, 0), Statistics(3, 2, 2), Statistics(0, 2, 0)])
def test_three_gauges_with_the_prefix(prefix: str, figures: Statistics) -> None:
    found = samples(Metrics(lambda: figures, "0.1.0", prefix).exposition())
    assert found == {
        f"{prefix}slots_processing": ("gauge", figures.slots_processing),
        f"{prefix}slots_total": ("gauge", figures.slots_total),
        f"{prefix}requests_buffered": ("gauge", figures.requests_buffered),
        "steersman_build_info": ("gauge", 1.0),
    }
    assert all(math.isfinite(value) and value >= 0 for _, value in found.values())


def test_each_scrape_reads_anew() -> None:
    figures = [Statistics(1, 1, 1), Statistics(2, 2, 2)]
    metrics = Metrics(lambda: figures.pop(0), "0.1.0")
    assert samples(metrics.exposition())["paddler_slots_total"] == ("gauge", 1)
    assert samples(metrics.exposition())["paddler_slots_total"] == ("gauge", 2)


def test_help_and_type_are_paddlers() -> None:
    text = Metrics(Statistics, "0.1.0").exposition().decode()
    assert "# HELP paddler_slots_processing Number of processing slots\n# TYPE paddler_slots_processing gauge\n" in text
    assert "# HELP paddler_slots_total Number of total slots\n" in text
    assert "# HELP paddler_requests_buffered Number of buffered requests\n" in text


def test_the_content_type_is_the_classic_text_form() -> None:
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")


@pytest.mark.parametrize("prefix", ["1x_", "a-b_", "a b", "paddler_\n", "ä_", "a:b"])
def test_a_prefix_that_makes_no_name_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        Metrics(Statistics, "0.1.0", prefix)
