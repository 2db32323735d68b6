"""How `AgentFigures` are called as metrics. One table for both sides, so that an agent's own page and the balancer's
say the same."""

from dataclasses import dataclass
from typing import Final

from shared.agent_figures import HISTOGRAM_EDGES


@dataclass(frozen=True, slots=True)
class FigureMetric:
    """The metric of one field of `AgentFigures`: `name` follows `steersman_agent_` or `steersman_fleet_`. Fields that
    share a name stand together and differ by their labels."""

    field: str
    name: str
    help: str
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def edges(self) -> tuple[float, ...] | None:
        """Upper edges of the buckets of a histogram; None for a counter."""
        return HISTOGRAM_EDGES.get(self.field)


_CONSTRAINTS: Final = "Constraints by what became of them: compiled, answered from the cache, or refused by a compile"
_DRAFTS: Final = "Tokens guessed ahead for constrained answers: right ones were accepted, and saved a step"

FIGURE_METRICS: Final = (
    FigureMetric("steps_total", "engine_steps_total", "Steps of the engine; each is one decode of a batch"),
    FigureMetric("evaluated_prompt_tokens_total", "evaluated_prompt_tokens_total", "Prompt tokens that were evaluated"),
    FigureMetric(
        "reused_prompt_tokens_total",
        "reused_prompt_tokens_total",
        "Prompt tokens that were not evaluated because their cells were kept",
    ),
    FigureMetric("generated_tokens_total", "generated_tokens_total", "Tokens generated, forced ones among them"),
    FigureMetric(
        "forced_tokens_total", "forced_tokens_total", "Tokens that a constraint left no choice about: not sampled"
    ),
    FigureMetric("draft_tokens_accepted_total", "draft_tokens_total", _DRAFTS, (("result", "accepted"),)),
    FigureMetric("draft_tokens_rejected_total", "draft_tokens_total", _DRAFTS, (("result", "rejected"),)),
    FigureMetric("evicted_tokens_total", "evicted_tokens_total", "Cells of kept prefixes that others needed"),
    FigureMetric(
        "saved_tokens_total",
        "prefix_store_saved_tokens_total",
        "Tokens of idle prefixes that were copied to host memory",
    ),
    FigureMetric(
        "restored_tokens_total",
        "prefix_store_restored_tokens_total",
        "Tokens of kept prefixes that were copied back into cells",
    ),
    FigureMetric("set_aside_total", "set_aside_total", "Requests that gave their cells to elder ones for a while"),
    FigureMetric(
        "constraints_compiled_total",
        "constraints_total",
        _CONSTRAINTS,
        (("result", "compiled"),),
    ),
    FigureMetric(
        "constraints_cached_total",
        "constraints_total",
        _CONSTRAINTS,
        (("result", "cached"),),
    ),
    FigureMetric(
        "constraints_refused_total",
        "constraints_total",
        _CONSTRAINTS,
        (("result", "refused"),),
    ),
    FigureMetric(
        "model_loads_failed_total", "model_loads_failed_total", "Attempts to prove or load a model that ended badly"
    ),
    FigureMetric("step_seconds", "engine_step_seconds", "Time of one step of the engine: what a token waits for"),
    FigureMetric("batch_tokens", "batch_tokens", "Tokens in one decode"),
    FigureMetric(
        "constraint_compile_seconds", "constraint_compile_seconds", "Time of one compile of a constraint, on the clock"
    ),
    FigureMetric(
        "constraint_mask_seconds", "constraint_mask_seconds", "Time of the engine's thread for one mask of one request"
    ),
    FigureMetric(
        "model_load_seconds", "model_load_seconds", "Time of one load of a model, from free memory until it serves"
    ),
)
