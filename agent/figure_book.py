"""Keeps the agent's figures: it hears of every step, and asks compilers and loads when somebody wants to know."""

from collections.abc import Callable

from agent.core.events import StepReport
from agent.core.statistics import FigureTotals, LoadStatistics
from agent.model_port import ConstraintSource, LoadedModel
from shared.agent_figures import AgentFigures


class FigureBook:
    """What was counted since the process began, over all models. Belongs to the event loop."""

    def __init__(self, started_at_id: str, load_statistics: Callable[[], LoadStatistics]) -> None:
        """`started_at_id`: another with each process."""
        self._totals = FigureTotals(started_at_id)
        self._load_statistics = load_statistics
        self._source: ConstraintSource | None = None  # also that of a model that is gone, until there is a new one
        self._source_number = 0

    def step(self, report: StepReport) -> None:
        """An engine made a step."""
        self._totals.engine(report)

    def figures(self, model: LoadedModel | None) -> AgentFigures:
        """As of now. `model`: the one that is loaded."""
        self._ask_compiler()
        if model is not None and model.constraints is not self._source:
            self._source = model.constraints
            self._source_number += 1
            self._ask_compiler()
        return self._totals.figures(self._load_statistics())

    def _ask_compiler(self) -> None:
        if self._source is not None:
            self._totals.compiler(self._source_number, self._source.statistics())
