"""What the management service is made of: the few questions that its routes ask, and whom they ask.

The records are read, never changed; `switchboard` fills them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from balancer.desired_state_watch import DesiredStateWatch
from balancer.metrics.exposition import Metrics
from balancer.request_body import BodyLimits
from shared.agent_status import AgentStatus
from shared.desired_state import AgentDesiredState

KEEP_ALIVE_SECONDS = 10.0  # Paddler's
LEAST_SECONDS_BETWEEN_SNAPSHOTS = 0.1
MAX_OPEN_STREAMS = 256


class AgentView(Protocol):
    """One linked agent."""

    @property
    def agent_id(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def status(self) -> AgentStatus: ...
    @property
    def slots_processing(self) -> int:
        """Members of this balancer that run there: counted, not reported."""
        ...

    @property
    def last_heard_age_seconds(self) -> float: ...
    @property
    def software_version(self) -> str: ...
    @property
    def remote_address(self) -> str | None:
        """Where the agent dialled in from."""
        ...


class FleetView(Protocol):
    """All agents at one moment. `applicable_state`: None until the desired state is known."""

    @property
    def agents(self) -> Sequence[AgentView]: ...
    @property
    def wanted_revision(self) -> int | None: ...
    @property
    def applicable_state(self) -> AgentDesiredState | None: ...


class StatisticsView(Protocol):
    """The machine's own exact counts."""

    @property
    def requests_buffered(self) -> int: ...
    @property
    def slots_total(self) -> int: ...
    @property
    def slots_processing(self) -> int: ...


class Changes(Protocol):
    """A number that grows with every change that somebody could want to see."""

    @property
    def version(self) -> int: ...
    async def wait_changed(self, seen_version: int) -> int:
        """Returns at once when `version` has passed `seen_version`."""
        ...


class FleetSource(Protocol):
    """The switchboard, as seen from here."""

    @property
    def changes(self) -> Changes: ...
    def fleet(self) -> FleetView: ...
    def statistics(self) -> StatisticsView: ...
    def story(self, request_id: str) -> Sequence[str] | None: ...
    async def ask_model_metadata(self, agent_id: str) -> Mapping[str, str] | None: ...
    async def ask_chat_template_override(self, agent_id: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ManagementServices:
    """Everything that `add_management_routes` needs."""

    switchboard: FleetSource
    watch: DesiredStateWatch
    metrics: Metrics
    is_shutting_down: Callable[[], bool]
    body_limits: BodyLimits = field(default_factory=BodyLimits)
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS
    least_seconds_between_snapshots: float = LEAST_SECONDS_BETWEEN_SNAPSHOTS
    max_open_streams: int = MAX_OPEN_STREAMS
