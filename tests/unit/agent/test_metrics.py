"""An agent's own page, read as Prometheus reads it."""

from prometheus_client.parser import text_string_to_metric_families

from agent.metrics import exposition
from shared.agent_figure_metrics import FIGURE_METRICS
from shared.agent_figures import MASK_SECONDS_EDGES, AgentFigures, HistogramFigures
from shared.agent_status import AgentStatus
from shared.version import PROTOCOL_VERSION, software_version
from tests.support.agent_statuses import agent_status


def samples(status: AgentStatus) -> dict[tuple[str, ...], float]:
    """Name and values of labels to value."""
    text = exposition(status).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_slots_cells_and_downloads_are_told_apart_by_their_state() -> None:
    found = samples(
        agent_status(
            slots_processing=1, context_cells=100, used_cells=30, cached_tokens=20, download_current=5, download_total=9
        )
    )
    slots, cells, bytes_ = (f"steersman_agent_{name}" for name in ("slots", "kv_cells", "model_download_bytes"))
    assert (found[slots, "processing"], found[slots, "free"]) == (1, 3)
    assert (found[cells, "running"], found[cells, "cached"], found[cells, "free"]) == (10, 20, 70)
    assert (found[bytes_, "current"], found[bytes_, "total"]) == (5, 9)


def test_counters_and_buckets_are_those_of_the_figures() -> None:
    masks = HistogramFigures(counts=[2, 1, *[0] * (len(MASK_SECONDS_EDGES) - 2), 4], total=2.5)
    figures = AgentFigures(
        steps_total=7, constraints_compiled_total=1, constraints_refused_total=3, constraint_mask_seconds=masks
    )
    found = samples(agent_status(figures=figures))
    assert found["steersman_agent_engine_steps_total",] == 7
    results = [found["steersman_agent_constraints_total", result] for result in ("compiled", "cached", "refused")]
    assert results == [1, 0, 3]
    name = "steersman_agent_constraint_mask_seconds"
    buckets = [found[f"{name}_bucket", edge] for edge in ("1e-05", "2.5e-05", "0.3", "+Inf")]
    assert buckets == [2, 3, 3, 7]
    assert (found[f"{name}_sum",], found[f"{name}_count",]) == (2.5, 7)


def test_every_figure_is_there_with_the_build_and_four_figures_of_the_process() -> None:
    names = {name for name, *_ in samples(agent_status())}
    for metric in FIGURE_METRICS:
        assert f"steersman_agent_{metric.name}" + ("_count" if metric.edges else "") in names
    assert samples(agent_status())["steersman_build_info", str(PROTOCOL_VERSION), software_version()] == 1
    assert {name for name in names if name.startswith("process_")} == {
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    }
