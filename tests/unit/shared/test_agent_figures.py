"""Buckets are Prometheus', figures of other buckets are refused, and every figure has a metric."""

from collections import Counter
from typing import Any

import pytest

from shared import wire
from shared.agent_figure_metrics import FIGURE_METRICS
from shared.agent_figures import (
    COUNTERS,
    HISTOGRAM_EDGES,
    MAX_BUCKETS,
    AgentFigures,
    Histogram,
    HistogramCounts,
    HistogramFigures,
)
from shared.messages_from_agent import StatusUpdate
from shared.wire_errors import WireError
from tests.support.agent_statuses import agent_status


def test_a_value_on_an_edge_belongs_below_it_and_one_above_all_is_counted_too() -> None:
    histogram = Histogram((1, 2, 4))
    for value in (0.0, 1.0, 1.5, 2.0, 4.0, 4.1, 1e9):
        histogram.observe(value)
    read = histogram.read()
    assert read.counts == (2, 2, 1, 2)
    assert read.total == pytest.approx(12.6 + 1e9)
    histogram.observe(3.0)
    assert read.counts == (2, 2, 1, 2), "a record does not change any more"


def test_two_records_are_added_bucket_by_bucket() -> None:
    assert HistogramCounts((1, 0, 2), 3.5).plus(HistogramCounts((0, 4, 1), 1.0)) == HistogramCounts((1, 4, 3), 4.5)


@pytest.mark.parametrize("edges", HISTOGRAM_EDGES.values(), ids=HISTOGRAM_EDGES)
def test_edges_ascend_and_fit_on_the_wire(edges: tuple[float, ...]) -> None:
    assert list(edges) == sorted(set(edges))
    assert 0 < edges[0]
    assert len(edges) < MAX_BUCKETS


def figures(**changes: Any) -> AgentFigures:
    given: dict[str, Any] = {"started_at_id": "p", **{name: place for place, name in enumerate(COUNTERS)}}
    for name, edges in HISTOGRAM_EDGES.items():
        given[name] = HistogramFigures(counts=list(range(len(edges) + 1)), total=1.5)
    return AgentFigures.model_validate({**given, **changes})


def test_figures_travel_in_the_status() -> None:
    sent = StatusUpdate(status=agent_status(figures=figures()))
    assert wire.decode_from_agent(wire.encode_from_agent(sent)) == sent


@pytest.mark.parametrize("counts", [[], [1], [1] * 18, [1] * 20, [-1] * 19])
def test_figures_of_other_buckets_are_refused(counts: list[int]) -> None:
    strange = HistogramFigures.model_construct(counts=counts, total=0.0)
    sent = StatusUpdate(
        status=agent_status().model_copy(update={"figures": figures().model_copy(update={"step_seconds": strange})})
    )
    with pytest.raises(WireError, match=r"status\.figures\.step_seconds"):
        wire.decode_from_agent(wire.encode_from_agent(sent))


def test_every_figure_has_one_metric() -> None:
    assert sorted(metric.field for metric in FIGURE_METRICS) == sorted([*COUNTERS, *HISTOGRAM_EDGES])
    assert set(AgentFigures.model_fields) == {"started_at_id", *COUNTERS, *HISTOGRAM_EDGES}


def test_metrics_that_share_a_name_differ_in_their_labels_alone() -> None:
    assert all(count == 1 for count in Counter((one.name, one.labels) for one in FIGURE_METRICS).values())
    for name in {one.name for one in FIGURE_METRICS}:
        alike = [one for one in FIGURE_METRICS if one.name == name]
        assert len({(one.help, tuple(label for label, _ in one.labels), one.edges) for one in alike}) == 1
        assert name.endswith("_total") == (alike[0].edges is None)
