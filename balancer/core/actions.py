"""What the driver must do after an event, in this order. Every action names the group it belongs to, if any."""

from dataclasses import dataclass

from shared.failures import Failure
from shared.generation import FinishReason, Usage
from shared.identifiers import AgentId, GroupId, MemberId


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send the member to the agent; from here on the agent's slot is taken."""

    group: GroupId
    member: MemberId
    agent: AgentId
    attempt: int


@dataclass(frozen=True, slots=True)
class CancelMember:
    """Tell the agent to stop; its end frees the slot."""

    group: GroupId
    member: MemberId
    agent: AgentId
    attempt: int


@dataclass(frozen=True, slots=True)
class FinishMember:
    """The member's stream ends well. Comes at most once per member."""

    group: GroupId
    member: MemberId
    finish_reason: FinishReason
    usage: Usage
    matched_stop: str | int | None = None


@dataclass(frozen=True, slots=True)
class FailGroup:
    """All streams of the group that have not ended, end with this failure. Comes at most once per group."""

    group: GroupId
    failure: Failure


@dataclass(frozen=True, slots=True)
class ReclaimSlot:
    """The agent never confirmed a cancellation: the slot is free again for us. Worth a warning."""

    group: GroupId
    member: MemberId
    agent: AgentId


@dataclass(frozen=True, slots=True)
class ForgetMember:
    """The machine knows nothing of the member any more. Comes exactly once per member."""

    group: GroupId
    member: MemberId


@dataclass(frozen=True, slots=True)
class SendState:
    """Tell the agent the state of this revision (always the newest)."""

    agent: AgentId
    revision: int


Action = Dispatch | CancelMember | FinishMember | FailGroup | ReclaimSlot | ForgetMember | SendState
