"""Facts that the machine is told. Each says what happened; none says what to do about it.

`attempt` numbers the dispatches of a member. A fact of an earlier attempt is stale: it is counted and ignored.
"""

from dataclasses import dataclass

from shared.failures import Failure
from shared.generation import FinishReason, Usage
from shared.identifiers import AgentId, GroupId, MemberId

# Facts from clients


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """A client asks for a group of generations. Group and member ids were never used before."""

    group: GroupId
    request_id: str
    members: tuple[MemberId, ...]
    priority: int = 0
    prefix_hashes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """Nobody waits for this group any more."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class ConsumerTooSlow:
    """The client takes its answer more slowly than we are willing to keep it."""

    group: GroupId


# Facts from agents


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """The part of an agent's status that decisions depend on.

    `slots_processing` counts over all balancers. `has_failed_to_apply`: the agent tried the state it was told last
    and could not. `is_exchanging`: it is on its way to another state. `engine_hangs`: it answers, but its engine
    has not advanced for longer than a client may wait.
    """

    slots_total: int
    slots_processing: int = 0
    accepting: bool = True
    draining: bool = False
    applied_revision: int | None = None
    has_failed_to_apply: bool = False
    is_exchanging: bool = False
    engine_hangs: bool = False


@dataclass(frozen=True, slots=True)
class AgentJoined:
    """A link with this agent is up. There was none before: a link that it replaces is reported lost first."""

    agent: AgentId
    name: str | None
    facts: AgentFacts


@dataclass(frozen=True, slots=True)
class AgentStatusChanged:
    """The agent sent a new status."""

    agent: AgentId
    facts: AgentFacts


@dataclass(frozen=True, slots=True)
class AgentLost:
    """The link is gone, or silent for too long."""

    agent: AgentId


@dataclass(frozen=True, slots=True)
class MemberAccepted:
    """The agent took the member: its prompt is good and it has a slot."""

    member: MemberId
    attempt: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class FirstItem:
    """The member's first tokens reached its stream: from now on it cannot simply start again."""

    member: MemberId
    attempt: int


@dataclass(frozen=True, slots=True)
class MemberBusy:
    """The agent has no slot for the member now."""

    member: MemberId
    attempt: int


@dataclass(frozen=True, slots=True)
class MemberRefused:
    """The request is wrong; it would be refused anywhere."""

    member: MemberId
    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class MemberEnded:
    """The agent's last word about the member: exactly one of `finish_reason` and `failure` is given."""

    member: MemberId
    attempt: int
    finish_reason: FinishReason | None
    usage: Usage
    failure: Failure | None = None
    matched_stop: str | int | None = None


@dataclass(frozen=True, slots=True)
class MemberSilent:
    """No item came for as long as a client may wait (or, of a cancelled member, no end)."""

    member: MemberId
    attempt: int


@dataclass(frozen=True, slots=True)
class MemberBroken:
    """What the agent sends about the member makes no sense; the agent still works on it."""

    member: MemberId
    attempt: int
    failure: Failure


# Facts from the operator and the clock


@dataclass(frozen=True, slots=True)
class DesiredStateChanged:
    """The fleet should run this revision."""

    revision: int


@dataclass(frozen=True, slots=True)
class TimePassed:
    """`next_deadline()` may have come."""


@dataclass(frozen=True, slots=True)
class ShutdownBegun:
    """The listeners are closed; what is waiting or running may go on until `deadline`."""

    deadline: float


@dataclass(frozen=True, slots=True)
class ShutdownEnds:
    """No more time: whatever is left fails now."""


MemberEvent = MemberAccepted | FirstItem | MemberBusy | MemberRefused | MemberEnded | MemberSilent | MemberBroken
AgentEvent = AgentJoined | AgentStatusChanged | AgentLost
Event = (
    RequestArrived
    | ClientLeft
    | ConsumerTooSlow
    | MemberEvent
    | AgentEvent
    | DesiredStateChanged
    | TimePassed
    | ShutdownBegun
    | ShutdownEnds
)
