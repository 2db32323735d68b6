"""What one balancer counts, where it is asked at each scrape, and what becomes of the answers."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Protocol

from balancer.core.machine import BalancerStatistics
from balancer.desired_state_store import StoredState
from balancer.link_traffic import LinkTraffic
from balancer.linked_agents import FleetSnapshot
from balancer.loop_lag import LoopLag
from balancer.metrics.balancer_families import (
    StoreStatistics,
    link_families,
    loop_families,
    machine_families,
    paddler_families,
    paddler_gauges,
    store_families,
)
from balancer.metrics.exposition import Families, Metrics
from balancer.metrics.figure_sums import FigureSums
from balancer.metrics.fleet_families import FleetFigures, fleet_families
from balancer.metrics.request_metrics import RequestMetrics, request_families
from balancer.redis_address import SCHEMES
from balancer.settings import BalancerSettings
from balancer.side_tasks import SideTask
from balancer.statsd import StatsdPush
from shared.metric_families import build_families, process_families
from shared.version import software_version


class FleetQuestions(Protocol):
    """The switchboard, as seen from here."""

    def statistics(self) -> BalancerStatistics: ...
    def fleet(self) -> FleetSnapshot: ...


class StoreQuestions(Protocol):
    """The watch over the desired state, as seen from here."""

    @property
    def current(self) -> StoredState | None: ...
    @property
    def problem(self) -> str | None: ...


class Telemetry:
    """`requests`, `figures` and `traffic` are counted into by others. `clock` is the machine's."""

    def __init__(self, settings: BalancerSettings, clock: Callable[[], float]) -> None:
        self.requests = RequestMetrics()
        self.figures = FigureSums(by_agent=settings.agent_metrics)
        self.traffic = LinkTraffic()
        self._loop_lag = LoopLag(clock)
        self._settings = settings
        self._clock = clock

    def metrics(self, fleet: FleetQuestions, store: StoreQuestions) -> Metrics:
        """All that the balancer exports. Each source copies, in the event loop, what a thread then writes down."""
        return Metrics(
            [
                lambda: partial(build_families, software_version()),
                lambda: self._machine(fleet.statistics(), store),
                lambda: partial(request_families, self.requests.statistics()),
                lambda: self._fleet(fleet.fleet()),
                lambda: partial(link_families, self.traffic.statistics()),
                lambda: partial(loop_families, self._loop_lag.statistics()),
                lambda: process_families,
            ]
        )

    def tasks(self, fleet: FleetQuestions) -> Iterator[SideTask]:
        """What must run as long as the balancer."""
        yield self._loop_lag.run(), "event-loop lag"
        if self._settings.statsd_addr is not None:
            push = StatsdPush(
                self._settings.statsd_addr,
                self._settings.statsd_reporting_interval_seconds,
                lambda: self._statsd_gauges(fleet.statistics()),
            )
            yield push.run(), "StatsD push"

    def _statsd_gauges(self, figures: BalancerStatistics) -> Iterator[tuple[str, int]]:
        return ((self._settings.metrics_prefix + name, value) for name, _, value in paddler_gauges(figures))

    def _fleet(self, fleet: FleetSnapshot) -> Families:
        labels = None
        if self._settings.agent_metrics:
            labels = tuple(self.figures.label_of(agent.agent_id, agent.name) for agent in fleet.agents)
        patience_seconds = self._settings.inference_item_timeout_seconds
        return partial(fleet_families, FleetFigures(fleet, self.figures.statistics(), labels, patience_seconds))

    def _machine(self, figures: BalancerStatistics, store: StoreQuestions) -> Families:
        is_redis = self._settings.state_database.partition("://")[0].lower() in SCHEMES
        since = figures.behind_since
        stored = StoreStatistics(
            revision=0 if store.current is None else store.current.revision,
            lag_seconds=0.0 if since is None else max(0.0, self._clock() - since),
            is_up=store.problem is None and store.current is not None if is_redis else None,
        )
        prefix = self._settings.metrics_prefix
        return lambda: chain(paddler_families(figures, prefix), machine_families(figures), store_families(stored))
