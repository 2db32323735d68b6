"""The balancer itself: Paddler's three gauges, the room, the links, the loop, and the desired state."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from balancer.core.machine import BalancerStatistics
from balancer.link_traffic import ROUND_TRIP_EDGES, LinkTrafficStatistics
from balancer.loop_lag import LAG_EDGES
from shared.agent_figures import HistogramCounts
from shared.metric_families import Family, counter, counters, gauge, histogram


class PaddlerFigures(Protocol):
    """The part of the machine's statistics that Paddler exports."""

    @property
    def requests_buffered(self) -> int: ...
    @property
    def slots_total(self) -> int: ...
    @property
    def slots_processing(self) -> int: ...


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """The desired state. `is_up`: whether Redis answers; None when the state is not in Redis. `lag_seconds`: how long
    some agent has not put the wanted revision in force."""

    revision: int
    lag_seconds: float
    is_up: bool | None


def paddler_gauges(figures: PaddlerFigures) -> tuple[tuple[str, str, int], ...]:
    """Name without prefix, help and value; names and words are Paddler's, for `/metrics` and StatsD."""
    return (
        ("slots_processing", "Number of processing slots", figures.slots_processing),
        ("slots_total", "Number of total slots", figures.slots_total),
        ("requests_buffered", "Number of buffered requests", figures.requests_buffered),
    )


def paddler_families(figures: PaddlerFigures, prefix: str) -> Iterator[Family]:
    """The three gauges; `prefix` begins their names in place of ours."""
    for name, help_text, value in paddler_gauges(figures):
        yield gauge(name, help_text, value, prefix=prefix)


def machine_families(figures: BalancerStatistics) -> Iterator[Family]:
    """The room, and what befell requests and agents on the way."""
    counted = figures.counters
    yield gauge("queue_depth", "Requests that wait for a slot", figures.requests_buffered)
    yield counters(
        "requests_retried_total",
        "Generations that went to an agent again, since the one before was lost or had no slot left",
        ("reason",),
        ((("agent_lost",), counted.requeues_after_death), (("busy",), counted.requeues_after_busy)),
    )
    yield counter(
        "agents_lost_total", "Agents whose link ended without their having said that they leave", counted.agents_lost
    )
    yield counter("swaps_total", "How often an agent put a state in force, its first one too", counted.states_applied)


def link_families(traffic: LinkTrafficStatistics) -> Iterator[Family]:
    """The agents' sockets."""
    yield counter("link_received_bytes_total", "Bytes of the messages that came from agents", traffic.received_bytes)
    yield counter("link_sent_bytes_total", "Bytes of the messages that went to agents", traffic.sent_bytes)
    yield histogram(
        "link_round_trip_seconds",
        "From a ping to its pong, the agent's loop included",
        ROUND_TRIP_EDGES,
        traffic.round_trip,
    )


def loop_families(lag: HistogramCounts) -> Iterator[Family]:
    """The event loop, through which every token passes."""
    yield histogram("event_loop_lag_seconds", "How late the event loop comes to what is due", LAG_EDGES, lag)


def store_families(figures: StoreStatistics) -> Iterator[Family]:
    """The desired state and where it is kept."""
    if figures.is_up is not None:
        yield gauge("redis_up", "Whether Redis, which holds the desired state, answers: 1 or 0", figures.is_up)
    yield gauge("desired_state_revision", "Revision of the desired state that this balancer knows", figures.revision)
    yield gauge(
        "desired_state_lag_seconds",
        "How long some agent has not put the wanted revision in force; 0 while all have",
        figures.lag_seconds,
    )
