"""What the agents of this balancer have done, added up so that no sum ever falls.

Each agent counts since its own process began. What is added here is the difference to what it said last; an agent
that comes back after its link broke goes on from there, and another process under the same id begins at zero.
What an agent did before this balancer first heard of it is not added: after a restart of the balancer the sums begin
at zero, as counters do, and do not jump by everything that the fleet has ever done.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from operator import add
from typing import Final

from shared.agent_figures import (
    COUNTERS,
    HISTOGRAM_EDGES,
    AgentFigures,
    FigureValues,
    HistogramCounts,
    HistogramFigures,
)

MAX_LABELS: Final = 1_000
OTHER: Final = "other"
MAX_REMEMBERED_AGENTS: Final = 8_192
"""Twice as many as may be linked. One that is forgotten and comes back is a new one: nothing of it counts twice."""


@dataclass(frozen=True, slots=True)
class FigureStatistics:
    """`by_label` is empty unless it was asked for."""

    fleet: FigureValues
    by_label: dict[str, FigureValues]


@dataclass(slots=True)
class _Sum:
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    counts: dict[str, list[int]] = field(
        default_factory=lambda: {name: [0] * (len(edges) + 1) for name, edges in HISTOGRAM_EDGES.items()}
    )
    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys(HISTOGRAM_EDGES, 0.0))

    def read(self) -> FigureValues:
        return FigureValues(
            dict(self.counters),
            {name: HistogramCounts(tuple(counts), self.totals[name]) for name, counts in self.counts.items()},
        )


@dataclass(frozen=True, slots=True)
class _Increase:
    """What came on top, without the fields in which nothing did."""

    counters: dict[str, int]
    histograms: dict[str, tuple[list[int], float]]

    def add_to(self, summed: _Sum) -> None:
        for name, count in self.counters.items():
            summed.counters[name] += count
        for name, (counts, total) in self.histograms.items():
            summed.counts[name] = list(map(add, summed.counts[name], counts))
            summed.totals[name] += total


class FigureSums:
    """`by_agent`: also add up by label, for at most MAX_LABELS of them; further agents share OTHER."""

    def __init__(self, *, by_agent: bool = False) -> None:
        self._by_agent = by_agent
        self._fleet = _Sum()
        self._labels: dict[str, _Sum] = {}
        self._last: OrderedDict[str, AgentFigures] = OrderedDict()  # by agent id, the longest unheard first

    def heard(self, agent_id: str, name: str | None, figures: AgentFigures) -> None:
        """The agent says what it has counted so far. Takes some ten microseconds."""
        summed = [self._fleet]
        if self._by_agent:
            summed.append(self._sum_of(name or agent_id))
        before = self._last.get(agent_id)
        self._last[agent_id] = figures
        self._last.move_to_end(agent_id)
        if len(self._last) > MAX_REMEMBERED_AGENTS:
            self._last.popitem(last=False)
        if before is not None:
            increase = _increase(before if before.started_at_id == figures.started_at_id else _NOTHING, figures)
            for one in summed:
                increase.add_to(one)

    def label_of(self, agent_id: str, name: str | None) -> str:
        """What the series of an agent are called."""
        label = name or agent_id
        return label if label in self._labels else OTHER

    def statistics(self) -> FigureStatistics:
        """A copy that does not change any more."""
        return FigureStatistics(self._fleet.read(), {label: summed.read() for label, summed in self._labels.items()})

    def _sum_of(self, label: str) -> _Sum:
        if label not in self._labels and len(self._labels) >= MAX_LABELS:
            label = OTHER
        return self._labels.setdefault(label, _Sum())


_NOTHING: Final = AgentFigures()


def _increase(before: AgentFigures, now: AgentFigures) -> _Increase:
    counters = {name: getattr(now, name) - getattr(before, name) for name in COUNTERS}
    histograms = {
        name: _histogram_increase(getattr(before, name), getattr(now, name))
        for name in HISTOGRAM_EDGES
        if getattr(before, name).counts != getattr(now, name).counts
    }
    return _Increase({name: count for name, count in counters.items() if count > 0}, histograms)


def _histogram_increase(before: HistogramFigures, now: HistogramFigures) -> tuple[list[int], float]:
    counts = [max(0, after - count) for after, count in zip(now.counts, before.counts, strict=True)]
    return counts, max(0.0, now.total - before.total)
