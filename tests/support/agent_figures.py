"""Figures of an agent in a few words."""

from typing import Any

from shared.agent_figures import HISTOGRAM_EDGES, AgentFigures, Histogram, HistogramFigures


def figures(process: str = "p", *, steps: int = 0, step_seconds: tuple[float, ...] = (), **counts: Any) -> AgentFigures:
    """`steps` that were counted, `step_seconds` that were observed."""
    observed = Histogram(HISTOGRAM_EDGES["step_seconds"])
    for seconds in step_seconds:
        observed.observe(seconds)
    return AgentFigures(
        started_at_id=process, steps_total=steps, step_seconds=HistogramFigures.of(observed.read()), **counts
    )
