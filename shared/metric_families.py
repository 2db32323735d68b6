"""How figures become Prometheus' families and those its text, for both sides alike: names under `steersman_`.

The one file that knows the client library of Prometheus. It takes figures that do not change any more, and may run in
any thread.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from shared.agent_figure_metrics import FIGURE_METRICS
from shared.agent_figures import FigureValues, HistogramCounts
from shared.version import PROTOCOL_VERSION

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
PREFIX: Final = "steersman_"
_OF_THE_PROCESS: Final = frozenset(
    {
        "process_resident_memory_bytes",
        "process_cpu_seconds",  # the text says _total
        "process_open_fds",
        "process_start_time_seconds",
    }
)

Family = Metric
"""One metric with all its series."""

Labelled = tuple[Sequence[str], float]
"""Values of the labels in their order, and the figure."""


def exposition_text(families: Iterable[Family]) -> bytes:
    """The whole text; its type is CONTENT_TYPE. Takes milliseconds, and more for many series: call it in a thread."""
    return generate_latest(_Once(families))


class _Once(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


# Families of one kind


def gauge(name: str, help_text: str, value: float, *, prefix: str = PREFIX) -> Family:
    """A gauge without labels."""
    return GaugeMetricFamily(prefix + name, help_text, value)


def gauges(name: str, help_text: str, labels: Sequence[str], figures: Iterable[Labelled]) -> Family:
    """A gauge with labels."""
    family = GaugeMetricFamily(PREFIX + name, help_text, labels=labels)
    for values, value in figures:
        family.add_metric(values, value)
    return family


def counter(name: str, help_text: str, value: float) -> Family:
    """A counter without labels; `name` ends in `_total`."""
    return CounterMetricFamily(PREFIX + name, help_text, value)


def counters(name: str, help_text: str, labels: Sequence[str], figures: Iterable[Labelled]) -> Family:
    """A counter with labels; `name` ends in `_total`."""
    family = CounterMetricFamily(PREFIX + name, help_text, labels=labels)
    for values, value in figures:
        family.add_metric(values, value)
    return family


def histograms(
    name: str,
    help_text: str,
    edges: Sequence[float],
    labels: Sequence[str],
    figures: Iterable[tuple[Sequence[str], HistogramCounts]],
) -> Family:
    """A histogram with labels. `edges`: upper edges, one fewer than there are counts."""
    family = HistogramMetricFamily(PREFIX + name, help_text, labels=labels)
    words = [floatToGoString(edge) for edge in (*edges, float("inf"))]  # type: ignore[no-untyped-call]
    for values, counted in figures:
        cumulative = accumulate(counted.counts)
        family.add_metric(values, list(zip(words, cumulative, strict=True)), counted.total)
    return family


def histogram(name: str, help_text: str, edges: Sequence[float], counted: HistogramCounts) -> Family:
    """A histogram without labels."""
    return histograms(name, help_text, edges, (), [((), counted)])


# Families that both sides export


def build_families(software_version: str) -> Iterator[Family]:
    """Which software runs here."""
    build = {"version": software_version, "protocol": str(PROTOCOL_VERSION)}
    yield InfoMetricFamily(f"{PREFIX}build", "What runs here: its version and that of the agents' protocol", build)


def process_families() -> Iterator[Family]:
    """What the process takes of its host, under the names that every Prometheus client uses; nothing on a system
    without `/proc`. Reads files, so never within the event loop."""
    return (family for family in ProcessCollector(registry=None).collect() if family.name in _OF_THE_PROCESS)


def figure_families(
    prefix: str, labels: Sequence[str], figures: Mapping[tuple[str, ...], FigureValues]
) -> Iterator[Family]:
    """One family for each name of FIGURE_METRICS. `figures`: by the values of `labels`."""
    for name, alike in groupby(FIGURE_METRICS, attrgetter("name")):
        first, *others = alike
        if first.edges is not None:
            counted = ((values, one.histograms[first.field]) for values, one in figures.items())
            yield histograms(prefix + name, first.help, first.edges, labels, counted)
            continue
        yield counters(
            prefix + name,
            first.help,
            (*labels, *(label for label, _ in first.labels)),
            (
                ((*values, *(value for _, value in metric.labels)), one.counters[metric.field])
                for values, one in figures.items()
                for metric in (first, *others)
            ),
        )
