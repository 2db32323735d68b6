"""What an agent has counted since its process began: it travels in its status and becomes metrics on both sides.

Counters only grow, and begin at zero with the process, which `started_at_id` names. Gauges (slots, cells, downloads)
are fields of the status itself.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from shared.desired_state import StrictModel

MAX_COUNT: Final = 2**63 - 1
MAX_TOTAL: Final = 1e15  # of observed values: thirty million years, were it seconds
MAX_BUCKETS: Final = 32

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]

# Upper edges of the buckets, as Prometheus' `le`; what is above the last one has a bucket of its own.

STEP_SECONDS_EDGES: Final = (
    *(0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0),
)
"""vLLM's edges of inter-token latency, since a step is what a token waits for; below them what a GPU takes. An agent
whose engine steps for longer than ten seconds is taken for hung soon after."""

BATCH_TOKENS_EDGES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
"""One for a single answer, a few for each slot, then prompts: doubling up to twice the usual `n_batch`."""

COMPILE_SECONDS_EDGES: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""0.05: what 10 kB of schema should take. 1.0: nobody waits for a compile any longer, and it is refused."""

MASK_SECONDS_EDGES: Final = (
    *(0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001),
    *(0.0025, 0.005, 0.01, 0.025, 0.06, 0.3),
)
"""Ordinary masks take 20 to 200 microseconds. A trial run refuses constraints above 0.06 s (0.3 s for the first mask),
and each mask delays the tokens of every other request."""

MODEL_LOAD_SECONDS_EDGES: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0)
"""A tenth of a second for the demo's model out of the page cache, minutes for 100 GB from a disk."""


@dataclass(frozen=True, slots=True)
class HistogramCounts:
    """A histogram at one moment. counts: of each bucket, not cumulative, the last is above all edges. total: the sum
    of what was observed."""

    counts: tuple[int, ...]
    total: float

    @classmethod
    def nothing(cls, edges: Sequence[float]) -> "HistogramCounts":
        """Nothing was observed yet."""
        return cls((0,) * (len(edges) + 1), 0.0)

    def plus(self, other: "HistogramCounts") -> "HistogramCounts":
        """Both together; the buckets are the same."""
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return HistogramCounts(counts, self.total + other.total)


class Histogram:
    """Counts values into buckets; an observation takes 0.2 microseconds. One thread observes, any may read: a reader
    may see the count of a value whose sum it sees a moment later."""

    __slots__ = ("_counts", "_edges", "_total")

    def __init__(self, edges: Sequence[float]) -> None:
        """`edges`: ascending upper edges, inclusive as Prometheus' `le`."""
        self._edges = tuple(edges)
        self._counts = [0] * (len(edges) + 1)
        self._total = 0.0

    def __repr__(self) -> str:
        return f"<Histogram {sum(self._counts)} values, {self._total:g} in all>"

    def observe(self, value: float) -> None:
        """Count one value; it is not negative."""
        self._counts[bisect_left(self._edges, value)] += 1
        self._total += value

    def read(self) -> HistogramCounts:
        """What was observed so far."""
        return HistogramCounts(tuple(self._counts), self._total)


class HistogramFigures(StrictModel):
    """`HistogramCounts` as it travels."""

    counts: Annotated[list[Count], Field(max_length=MAX_BUCKETS)]
    total: Annotated[float, Field(ge=0, le=MAX_TOTAL)]

    @classmethod
    def of(cls, read: HistogramCounts) -> "HistogramFigures":
        """The same, for the wire."""
        return cls(counts=list(read.counts), total=read.total)

    def read(self) -> HistogramCounts:
        """The same, for calculations."""
        return HistogramCounts(tuple(self.counts), self.total)


@dataclass(frozen=True, slots=True)
class BucketEdges:
    """Keeps a field's edges with the field, and refuses figures that were counted with others."""

    edges: tuple[float, ...]

    def check(self, figures: HistogramFigures) -> HistogramFigures:
        """Raises ValueError for another number of buckets."""
        if len(figures.counts) != len(self.edges) + 1:
            raise ValueError(f"{len(self.edges) + 1} buckets are expected")
        return figures

    def nothing(self) -> HistogramFigures:
        """Nothing was observed yet."""
        return HistogramFigures(counts=[0] * (len(self.edges) + 1), total=0.0)


_STEP = BucketEdges(STEP_SECONDS_EDGES)
_BATCH = BucketEdges(BATCH_TOKENS_EDGES)
_COMPILE = BucketEdges(COMPILE_SECONDS_EDGES)
_MASK = BucketEdges(MASK_SECONDS_EDGES)
_LOAD = BucketEdges(MODEL_LOAD_SECONDS_EDGES)


class AgentFigures(StrictModel):
    """Counted since the agent's process began, over all models that it has served. Tokens, seconds, or times."""

    started_at_id: Annotated[str, Field(max_length=128)] = ""  # changes with the process: then all begin at zero
    steps_total: Count = 0
    evaluated_prompt_tokens_total: Count = 0
    reused_prompt_tokens_total: Count = 0  # not evaluated, because their cells were there
    generated_tokens_total: Count = 0  # the forced ones among them
    forced_tokens_total: Count = 0  # that a constraint left no choice about, so that they were not sampled
    draft_tokens_accepted_total: Count = 0  # guessed ahead for constrained answers, and right
    draft_tokens_rejected_total: Count = 0  # guessed ahead, and wrong
    evicted_tokens_total: Count = 0  # cells of idle prefixes that others needed
    saved_tokens_total: Count = 0  # of idle prefixes, copied to host memory
    restored_tokens_total: Count = 0  # copied back, for a prompt that begins like them
    set_aside_total: Count = 0  # requests whose cells elder ones needed
    constraints_compiled_total: Count = 0  # that passed
    constraints_cached_total: Count = 0  # answered from what was kept, refusals too
    constraints_refused_total: Count = 0  # compiles that ended in a refusal
    model_loads_failed_total: Count = 0  # a model could not be proved or loaded; each attempt counts
    step_seconds: Annotated[HistogramFigures, AfterValidator(_STEP.check)] = Field(default_factory=_STEP.nothing)
    batch_tokens: Annotated[HistogramFigures, AfterValidator(_BATCH.check)] = Field(default_factory=_BATCH.nothing)
    constraint_compile_seconds: Annotated[HistogramFigures, AfterValidator(_COMPILE.check)] = Field(
        default_factory=_COMPILE.nothing
    )
    constraint_mask_seconds: Annotated[HistogramFigures, AfterValidator(_MASK.check)] = Field(
        default_factory=_MASK.nothing
    )  # one mask of one request, in seconds of the engine's thread
    model_load_seconds: Annotated[HistogramFigures, AfterValidator(_LOAD.check)] = Field(default_factory=_LOAD.nothing)


HISTOGRAM_EDGES: Final[dict[str, tuple[float, ...]]] = {
    "step_seconds": STEP_SECONDS_EDGES,
    "batch_tokens": BATCH_TOKENS_EDGES,
    "constraint_compile_seconds": COMPILE_SECONDS_EDGES,
    "constraint_mask_seconds": MASK_SECONDS_EDGES,
    "model_load_seconds": MODEL_LOAD_SECONDS_EDGES,
}
"""Edges by the name of the field."""

COUNTERS: Final = tuple(name for name in AgentFigures.model_fields if name.endswith("_total"))


@dataclass(frozen=True, slots=True)
class FigureValues:
    """Fields of `AgentFigures` by name, some or all: of a part of an agent, of an agent, or of many."""

    counters: Mapping[str, int] = field(default_factory=dict)
    histograms: Mapping[str, HistogramCounts] = field(default_factory=dict)

    @classmethod
    def of(cls, figures: AgentFigures) -> "FigureValues":
        """All of them."""
        return cls(
            {name: getattr(figures, name) for name in COUNTERS},
            {name: getattr(figures, name).read() for name in HISTOGRAM_EDGES},
        )

    def plus(self, other: "FigureValues") -> "FigureValues":
        """Both together; each has all fields of the other, or none."""
        if not other.counters:
            return self
        return FigureValues(
            {name: count + other.counters[name] for name, count in self.counters.items()},
            {name: counts.plus(other.histograms[name]) for name, counts in self.histograms.items()},
        )
