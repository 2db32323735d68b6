"""An agent's figures go on where the model before has ended."""

from dataclasses import replace
from typing import Any

from agent.core.events import EngineStatistics, SchedulerStatistics, StepReport
from agent.core.statistics import CompilerStatistics, FigureTotals, LoadStatistics
from shared.agent_figures import (
    BATCH_TOKENS_EDGES,
    MODEL_LOAD_SECONDS_EDGES,
    STEP_SECONDS_EDGES,
    AgentFigures,
    Histogram,
    HistogramCounts,
)


def scheduler(steps: int, **counted: int) -> SchedulerStatistics:
    """So many steps. What no sum may hold, because it is a state and no count, is 999."""
    nothing = SchedulerStatistics(999, 999, 999, 999, 999, 999, 0, 0, 0, 0, 0, 0)
    changes: dict[str, Any] = {"steps": steps, **counted}
    return replace(nothing, **changes)


def observed(edges: tuple[float, ...], values: list[float]) -> HistogramCounts:
    histogram = Histogram(edges)
    for value in values:
        histogram.observe(value)
    return histogram.read()


def report(began: float, steps: int, **counted: int) -> StepReport:
    """Of an engine whose every step took 0.02 s for 3 tokens."""
    engine = EngineStatistics(
        began, observed(STEP_SECONDS_EDGES, [0.02] * steps), observed(BATCH_TOKENS_EDGES, [3.0] * steps)
    )
    return StepReport((), scheduler(steps, **counted), engine)


def of(totals: FigureTotals) -> AgentFigures:
    return totals.figures(LoadStatistics())


def test_nothing_was_counted_at_first() -> None:
    assert of(FigureTotals("p")) == AgentFigures(started_at_id="p")


def test_the_newest_word_of_one_engine_counts() -> None:
    totals = FigureTotals("p")
    for steps in (1, 2, 7):
        totals.engine(report(10.0, steps, generated_tokens=steps, forced_tokens=2))
    figures = of(totals)
    assert (figures.steps_total, figures.generated_tokens_total, figures.forced_tokens_total) == (7, 7, 2)
    assert figures.step_seconds.counts[STEP_SECONDS_EDGES.index(0.025)] == sum(figures.step_seconds.counts) == 7


def test_a_new_engine_begins_at_zero_and_the_sum_does_not() -> None:
    totals = FigureTotals("p")
    seen = []
    for began in (10.0, 20.0, 30.0):
        for steps in (1, 2):
            totals.engine(report(began, steps, evaluated_prompt_tokens=100 * steps, evicted_tokens=5))
            seen.append(of(totals).steps_total)
    assert seen == [1, 2, 3, 4, 5, 6]
    figures = of(totals)
    assert (figures.evaluated_prompt_tokens_total, figures.evicted_tokens_total) == (600, 15)
    assert sum(figures.batch_tokens.counts) == 6
    assert figures.batch_tokens.total == 18.0


def test_an_engine_that_says_the_same_as_the_one_before_is_another_all_the_same() -> None:
    totals = FigureTotals("p")
    for began in (10.0, 20.0):
        totals.engine(report(began, 1, set_aside_total=1, reused_prompt_tokens=4))
    figures = of(totals)
    assert (figures.steps_total, figures.set_aside_total, figures.reused_prompt_tokens_total) == (2, 2, 8)


def test_compilers_are_added_up_and_a_compile_that_nobody_waited_for_is_a_refusal() -> None:
    totals = FigureTotals("p")
    totals.compiler(1, CompilerStatistics(compiles=5, refused=2, overdue=1, cache_hits=10))
    totals.compiler(2, CompilerStatistics())
    totals.compiler(2, CompilerStatistics(compiles=1, cache_hits=1, cached=99))
    figures = of(totals)
    assert figures.constraints_compiled_total == 3 + 1
    assert figures.constraints_cached_total == 10 + 1
    assert figures.constraints_refused_total == 2 + 1


def test_loads_are_counted_by_one_counter_for_all_models() -> None:
    loads = LoadStatistics(3, observed(MODEL_LOAD_SECONDS_EDGES, [0.3, 7.0]))
    figures = FigureTotals("p").figures(loads)
    assert figures.model_loads_failed_total == 3
    assert (sum(figures.model_load_seconds.counts), figures.model_load_seconds.total) == (2, 7.3)
