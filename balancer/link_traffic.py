"""What goes over the agents' sockets, all together."""

from dataclasses import dataclass, field
from typing import Final

from shared.agent_figures import Histogram, HistogramCounts

ROUND_TRIP_EDGES: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Half a millisecond on one host, tens across cities; at two heartbeats (10 s by default) the agent is lost."""


@dataclass(frozen=True, slots=True)
class LinkTrafficStatistics:
    """Totals since the start. Bytes are those of the messages, without what WebSocket, TLS and TCP add."""

    received_bytes: int
    sent_bytes: int
    round_trip: HistogramCounts


@dataclass(slots=True)
class LinkTraffic:
    """Counted by every link's reader and writer, which share one event loop."""

    received_bytes: int = 0
    sent_bytes: int = 0
    round_trip: Histogram = field(default_factory=lambda: Histogram(ROUND_TRIP_EDGES))

    def statistics(self) -> LinkTrafficStatistics:
        """A copy that does not change any more."""
        return LinkTrafficStatistics(self.received_bytes, self.sent_bytes, self.round_trip.read())
