"""`/metrics`: the frozen statistics in Prometheus' text form. What is shown is read at the moment of the scrape."""

import re
from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
DEFAULT_PREFIX = "paddler_"

_PREFIX = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*|")


class Figures(Protocol):
    """The part of the machine's statistics that is exported."""

    @property
    def requests_buffered(self) -> int: ...
    @property
    def slots_total(self) -> int: ...
    @property
    def slots_processing(self) -> int: ...


class Metrics:
    """`prefix` begins the names of Paddler's three gauges; ours always begin with `steersman_`.

    Raises ValueError when a name with that prefix is none for Prometheus.
    """

    def __init__(self, statistics: Callable[[], Figures], software_version: str, prefix: str = DEFAULT_PREFIX) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ValueError("the metrics prefix must begin with a letter or _, then letters, digits and _")
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_FleetCollector(statistics, software_version, prefix))

    def exposition(self) -> bytes:
        """The whole text; its type is CONTENT_TYPE."""
        return generate_latest(self._registry)


class _FleetCollector(Collector):
    def __init__(self, statistics: Callable[[], Figures], software_version: str, prefix: str) -> None:
        self._statistics = statistics
        self._software_version = software_version
        self._prefix = prefix

    def collect(self) -> Iterator[Metric]:
        figures = self._statistics()
        gauges = (
            ("slots_processing", "Number of processing slots", figures.slots_processing),
            ("slots_total", "Number of total slots", figures.slots_total),
            ("requests_buffered", "Number of buffered requests", figures.requests_buffered),
        )
        for name, help_text, value in gauges:
            yield GaugeMetricFamily(f"{self._prefix}{name}", help_text, value)
        yield InfoMetricFamily("steersman_build", "What runs here", {"version": self._software_version})
