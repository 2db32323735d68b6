"""The records of what clients asked for: a group is admitted, its members are dispatched.

Which list a record is in follows from its fields; `placement.place` puts it there after every change.
"""

from bisect import insort
from dataclasses import dataclass, field
from enum import Enum

from shared.identifiers import AgentId, GroupId, MemberId


class MemberPhase(Enum):
    """A member is in exactly one phase, and forgotten after the last."""

    WAITING = "waiting"
    RUNNING = "running"  # on an agent, for a client
    DRAINING = "draining"  # on an agent, for nobody: cancelled, and its slot is taken until the agent confirms


@dataclass(slots=True, eq=False)
class Member:
    """One generation. `agent` is set while it is on one; `deaths` counts the agents that were lost under it."""

    member: MemberId
    group: "Group"
    phase: MemberPhase = MemberPhase.WAITING
    agent: AgentId | None = None
    attempt: int = 0
    has_delivered: bool = False
    deaths: int = 0


@dataclass(slots=True, eq=False)
class Group:
    """One admitted request.

    `arrival` never changes: a member that comes back takes the place it had. `deadline` bounds the wait of a group
    of which nothing runs. `outside_bound`: it was served once, so it no longer counts against the room's limit.
    `pinned_to` is the agent that runs some of its members while others wait for that agent's next free slot.
    """

    group: GroupId
    request_id: str
    priority: int
    arrival: int
    prefix_hashes: tuple[int, ...]
    deadline: float
    waiting: list[Member] = field(default_factory=list)  # by member id
    running: dict[MemberId, Member] = field(default_factory=dict)
    pinned_to: AgentId | None = None
    outside_bound: bool = False
    is_open: bool = True

    @property
    def order(self) -> tuple[int, int]:
        """Its place among groups: larger priorities first, then first come first served."""
        return (-self.priority, self.arrival)

    @property
    def is_buffered(self) -> bool:
        """Whether all that is left of it waits."""
        return self.is_open and bool(self.waiting) and not self.running

    def wait_again(self, member: Member) -> None:
        """A member of this group has no agent any more and needs one."""
        member.phase = MemberPhase.WAITING
        insort(self.waiting, member, key=lambda one: one.member)
