"""Families, read back as Prometheus reads them."""

from shared.agent_figures import COUNTERS, HISTOGRAM_EDGES, AgentFigures, FigureValues, HistogramCounts
from shared.metric_families import (
    CONTENT_TYPE,
    counter,
    counters,
    exposition_text,
    figure_families,
    gauge,
    gauges,
    histograms,
    process_families,
)
from tests.support.exported import Exported


def test_the_content_type_is_the_classic_text_form() -> None:
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")


def test_each_kind_is_exported_under_our_prefix_with_its_labels() -> None:
    found = Exported.of(
        exposition_text(
            [
                gauge("depth", "Depth", 3),
                gauge("other", "Another's", 4, prefix="paddler_"),
                gauges("slots", "Slots", ("state",), [(("free",), 1), (("processing",), 2)]),
                counter("lost_total", "Lost", 5),
                counters("ended_total", "Ended", ("outcome", "failure"), [(("failed", "timeout"), 6)]),
            ]
        )
    )
    assert found.types == {
        "steersman_depth": "gauge",
        "paddler_other": "gauge",
        "steersman_slots": "gauge",
        "steersman_lost_total": "counter",
        "steersman_ended_total": "counter",
    }
    assert (found.value("steersman_depth"), found.value("paddler_other")) == (3, 4)
    assert found.by_label("steersman_slots") == {("free",): 1, ("processing",): 2}
    assert found.value("steersman_lost_total") == 5
    assert found.value("steersman_ended_total", outcome="failed", failure="timeout") == 6


def test_buckets_are_cumulative_and_named_by_their_upper_edges() -> None:
    counted = [(("one",), HistogramCounts((2, 1, 4), 2.5))]
    found = Exported.of(exposition_text([histograms("wait_seconds", "Wait", (0.00001, 10), ("kind",), counted)]))
    name = "steersman_wait_seconds"
    buckets = [found.value(f"{name}_bucket", kind="one", le=edge) for edge in ("1e-05", "10.0", "+Inf")]
    assert buckets == [2, 3, 7]
    assert (found.value(f"{name}_sum", kind="one"), found.value(f"{name}_count", kind="one")) == (2.5, 7)


def test_every_figure_is_in_one_family_for_each_holder_of_figures() -> None:
    one = FigureValues.of(AgentFigures(steps_total=7, constraints_cached_total=3))
    text = exposition_text(figure_families("agent_", ("agent",), {("a",): one, ("b",): one.plus(one)}))
    found = Exported.of(text)  # refuses a name that comes twice
    assert found.value("steersman_agent_engine_steps_total", agent="a") == 7
    assert found.value("steersman_agent_engine_steps_total", agent="b") == 14
    assert found.value("steersman_agent_constraints_total", agent="b", result="cached") == 6
    assert sum(name.endswith("_count") for (name, _) in found.values) == 2 * len(HISTOGRAM_EDGES)
    assert sum(name.endswith("_total") for (name, _) in found.values) == 2 * len(COUNTERS)


def test_four_figures_of_the_process() -> None:
    assert sorted(family.name for family in process_families()) == [
        "process_cpu_seconds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    ]
