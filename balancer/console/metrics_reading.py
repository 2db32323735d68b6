"""Rates and percentiles out of two readings of a balancer's /metrics. Pure.

Only the few names that are shown are kept, summed over their labels: with per-agent series the text may be long.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(r"steersman_([a-z_]+)(?:\{(.*)\})? (\S+)")
_EDGE: Final = re.compile(r'(?:^|,)le="([^"]+)"')

GENERATED: Final = ("fleet_generated_tokens_total", "generated_tokens_total")
PROMPT: Final = ("fleet_evaluated_prompt_tokens_total", "prompt_tokens_total")
"""What the agents say while they work; where they say nothing, what this balancer counts when an answer has ended."""
REQUESTS: Final = "requests_total"
FIRST_TOKEN: Final = "time_to_first_token_seconds"
BETWEEN_TOKENS: Final = "inter_token_latency_seconds"

_COUNTERS: Final = frozenset({*GENERATED, *PROMPT, REQUESTS})
_HISTOGRAMS: Final = frozenset({FIRST_TOKEN, BETWEEN_TOKENS})
_MOST_EDGES: Final = 200

Buckets = dict[float, float]
"""How many values are at most each edge, the edges in seconds; the last is infinity."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One scrape. `at`: monotonic seconds."""

    at: float
    counters: Mapping[str, float]
    histograms: Mapping[str, Buckets]


EMPTY: Final = Reading(0.0, {}, {})


@dataclass(frozen=True, slots=True)
class Numbers:
    """Rates per second and durations in seconds; None: nothing happened, or the balancer does not tell."""

    generated_per_second: float | None = None
    prompt_per_second: float | None = None
    requests_per_second: float | None = None
    first_token_p50: float | None = None
    first_token_p95: float | None = None
    between_tokens_p50: float | None = None
    between_tokens_p95: float | None = None


def read_metrics(text: str, at: float) -> Reading:
    """Lines that are not understood are passed over."""
    counters: dict[str, float] = {}
    histograms: dict[str, Buckets] = {}
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line) if line.startswith("steersman_") else None
        if found is None:
            continue
        name, labels, value = found[1], found[2] or "", _number(found[3])
        if value is None:
            continue
        if name in _COUNTERS:
            counters[name] = counters.get(name, 0.0) + value
        elif name.endswith("_bucket") and name.removesuffix("_bucket") in _HISTOGRAMS:
            _add_bucket(histograms.setdefault(name.removesuffix("_bucket"), {}), labels, value)
    return Reading(at, counters, histograms)


def has_restarted(old: Reading, new: Reading) -> bool:
    """Whether a counter fell: another process answers, and differences to `old` mean nothing."""
    return any(new.counters.get(name, 0.0) < value for name, value in old.counters.items())


def numbers(old: Reading, new: Reading, since: Reading | None = None) -> Numbers:
    """Rates between two readings; percentiles of what came after `since` (`old` when None; EMPTY: after the start)."""
    seconds = new.at - old.at
    before = old if since is None else since

    def per_second(name: str) -> float | None:
        if name not in new.counters or seconds <= 0:
            return None
        return max(new.counters[name] - old.counters.get(name, 0.0), 0.0) / seconds

    def percentile(name: str, fraction: float) -> float | None:
        edges = new.histograms.get(name, {})
        earlier = before.histograms.get(name, {})
        return quantile({edge: count - earlier.get(edge, 0.0) for edge, count in edges.items()}, fraction)

    return Numbers(
        generated_per_second=per_second(_first_that_counts(GENERATED, new)),
        prompt_per_second=per_second(_first_that_counts(PROMPT, new)),
        requests_per_second=per_second(REQUESTS),
        first_token_p50=percentile(FIRST_TOKEN, 0.5),
        first_token_p95=percentile(FIRST_TOKEN, 0.95),
        between_tokens_p50=percentile(BETWEEN_TOKENS, 0.5),
        between_tokens_p95=percentile(BETWEEN_TOKENS, 0.95),
    )


def quantile(buckets: Buckets, fraction: float) -> float | None:
    """As Prometheus does it: linear within a bucket; the last finite edge for what lies beyond. None of nothing."""
    edges = sorted(buckets)
    total = buckets[edges[-1]] if edges else 0.0
    if total <= 0:
        return None
    rank = fraction * total
    lower, below = 0.0, 0.0
    for edge in edges:
        count = buckets[edge]
        if count >= rank and count > below:
            if edge == float("inf"):
                return lower
            return lower + (edge - lower) * (rank - below) / (count - below)
        lower, below = edge, count
    return lower


def _first_that_counts(names: Sequence[str], reading: Reading) -> str:
    return next((name for name in names if reading.counters.get(name)), names[-1])


def _add_bucket(buckets: Buckets, labels: str, value: float) -> None:
    found = _EDGE.search(labels)
    edge = _number(found[1]) if found else None
    if edge is not None and (edge in buckets or len(buckets) < _MOST_EDGES):
        buckets[edge] = buckets.get(edge, 0.0) + value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
