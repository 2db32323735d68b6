"""What the parts of an agent count, each from its own beginning, and the sum of it since the process began.

An engine and a compiler live as long as their model. What one has counted when it goes is kept, and what the next one
counts comes on top.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from agent.core.events import EngineStatistics, SchedulerStatistics, StepReport
from shared.agent_figures import (
    COMPILE_SECONDS_EDGES,
    MASK_SECONDS_EDGES,
    MODEL_LOAD_SECONDS_EDGES,
    AgentFigures,
    FigureValues,
    HistogramCounts,
    HistogramFigures,
)

_NO_COMPILES = HistogramCounts.nothing(COMPILE_SECONDS_EDGES)
_NO_MASKS = HistogramCounts.nothing(MASK_SECONDS_EDGES)
_NO_LOADS = HistogramCounts.nothing(MODEL_LOAD_SECONDS_EDGES)


@dataclass(frozen=True, slots=True)
class CompilerStatistics:
    """Counted since the model was loaded."""

    compiles: int = 0  # finished ones, refused or not
    refused: int = 0  # of them
    overdue: int = 0  # that somebody stopped waiting for
    cache_hits: int = 0  # answered from what was kept, or by somebody else's compile
    cached: int = 0  # compiled forms that are kept now
    compile_seconds: HistogramCounts = _NO_COMPILES  # on the clock
    mask_seconds: HistogramCounts = _NO_MASKS  # CPU of the engine's thread


@dataclass(frozen=True, slots=True)
class LoadStatistics:
    """Counted since the process began."""

    failed: int = 0  # models that could not be proved or loaded; each attempt
    seconds: HistogramCounts = _NO_LOADS  # of those that were loaded


def engine_figures(record: tuple[SchedulerStatistics, EngineStatistics]) -> FigureValues:
    """What one engine adds to the agent's figures."""
    scheduler, engine = record
    counters = {
        "steps_total": scheduler.steps,
        "evaluated_prompt_tokens_total": scheduler.evaluated_prompt_tokens,
        "reused_prompt_tokens_total": scheduler.reused_prompt_tokens,
        "generated_tokens_total": scheduler.generated_tokens,
        "forced_tokens_total": scheduler.forced_tokens,
        "draft_tokens_accepted_total": scheduler.accepted_tokens,
        "draft_tokens_rejected_total": scheduler.drafted_tokens - scheduler.accepted_tokens,
        "evicted_tokens_total": scheduler.evicted_tokens,
        "saved_tokens_total": scheduler.store.saved_tokens,
        "restored_tokens_total": scheduler.store.restored_tokens,
        "set_aside_total": scheduler.set_aside_total,
    }
    return FigureValues(counters, {"step_seconds": engine.step_seconds, "batch_tokens": engine.batch_tokens})


def compiler_figures(statistics: CompilerStatistics) -> FigureValues:
    """What one compiler adds. Who stopped waiting for a compile was refused."""
    counters = {
        "constraints_compiled_total": statistics.compiles - statistics.refused,
        "constraints_cached_total": statistics.cache_hits,
        "constraints_refused_total": statistics.refused + statistics.overdue,
    }
    histograms = {
        "constraint_compile_seconds": statistics.compile_seconds,
        "constraint_mask_seconds": statistics.mask_seconds,
    }
    return FigureValues(counters, histograms)


Record = TypeVar("Record")


class _Lives(Generic[Record]):
    """Records of things of one kind, which live one after the other."""

    def __init__(self, figures_of: Callable[[Record], FigureValues]) -> None:
        self._figures_of = figures_of
        self._ended = FigureValues()  # of all that lived before
        self._life: float | None = None
        self._newest: Record | None = None

    def take(self, life: float, record: Record) -> None:
        """The newest record of the thing that `life` names; under another name the last one has ended."""
        if life != self._life:
            self._ended, self._life = self.total(), life
        self._newest = record

    def total(self) -> FigureValues:
        if self._newest is None:
            return self._ended
        return self._figures_of(self._newest).plus(self._ended)


class FigureTotals:
    """An agent's figures, summed over all models that it has served. `started_at_id`: another with each process."""

    def __init__(self, started_at_id: str) -> None:
        self._started_at_id = started_at_id
        self._engines = _Lives(engine_figures)
        self._compilers = _Lives(compiler_figures)

    def engine(self, report: StepReport) -> None:
        """An engine's step: once per step, so it only keeps the record."""
        self._engines.take(report.engine.began, (report.statistics, report.engine))

    def compiler(self, number: int, statistics: CompilerStatistics) -> None:
        """A compiler's figures; `number` is another with each compiler."""
        self._compilers.take(number, statistics)

    def figures(self, loads: LoadStatistics) -> AgentFigures:
        """All of it, as it travels."""
        engine, compiler = self._engines.total(), self._compilers.total()
        histograms = {**engine.histograms, **compiler.histograms, "model_load_seconds": loads.seconds}
        return AgentFigures.model_validate(
            {
                "started_at_id": self._started_at_id,
                "model_loads_failed_total": loads.failed,
                **engine.counters,
                **compiler.counters,
                **{name: HistogramFigures.of(counts) for name, counts in histograms.items()},
            }
        )
