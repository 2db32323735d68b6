"""The three tables that the switchboard's parts share, and its settings. One event loop, no awaits: no locks."""

from dataclasses import dataclass, field

from balancer.linked_agents import LinkedAgent
from balancer.metrics.figure_sums import FigureSums
from balancer.open_group import OpenGroup
from balancer.response_stream import DEFAULT_MAX_PENDING_BYTES, ResponseStream
from shared.desired_state import AgentDesiredState
from shared.identifiers import AgentId, GroupId, MemberId


@dataclass(frozen=True, slots=True)
class SwitchboardSettings:
    """`inference_item_timeout_seconds`: longest silence of an agent about a member, from dispatch on; 0: any.

    `cancel_patience_seconds` takes its place for cancelled members when it is 0. `reader_patience_seconds`: how
    long an event may lie in a stream before its reader counts as too slow.
    """

    inference_item_timeout_seconds: float = 30.0
    cancel_patience_seconds: float = 30.0
    max_pending_bytes: int = DEFAULT_MAX_PENDING_BYTES
    reader_patience_seconds: float = 30.0
    query_timeout_seconds: float = 3.0


@dataclass(slots=True)
class SwitchboardTables:
    """`open`: groups whose handler has not left. `streams`: of every member that the machine knows, so also of
    cancelled members whose agent has not confirmed. `agents`: the current link of each agent. `figures`: what agents
    have done, also those that are gone."""

    open: dict[GroupId, OpenGroup] = field(default_factory=dict)
    streams: dict[MemberId, ResponseStream] = field(default_factory=dict)
    agents: dict[AgentId, LinkedAgent] = field(default_factory=dict)
    figures: FigureSums = field(default_factory=FigureSums)
    wanted_revision: int | None = None
    applicable_state: AgentDesiredState | None = None
