"""All that the machine knows, in one record, so that its parts can be functions in files of their own.

Only functions of this folder change it, and only while `Machine.handle` runs.
"""

from dataclasses import dataclass, field

from balancer.core.actions import Action
from balancer.core.fleet import Fleet
from balancer.core.groups import Group, Member
from balancer.core.revision_lag import RevisionLag
from balancer.core.waiting_room import WaitingRoom
from shared.identifiers import AgentId, GroupId, MemberId


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """`busy_pause_seconds`: an agent that said `Busy` is tried again after that time even if nothing changed.

    `max_deaths`: how many lost agents a member survives. `checks_every_event` is for tests and debugging.
    """

    max_buffered_requests: int = 30
    buffered_request_timeout_seconds: float = 10.0
    busy_pause_seconds: float = 1.0
    max_deaths: int = 1
    checks_every_event: bool = False


@dataclass(slots=True)
class Counters:
    """Totals since the start. Each group that was opened ends in exactly one of the next three."""

    groups_opened: int = 0
    groups_finished: int = 0
    groups_failed: int = 0
    groups_left: int = 0
    dispatches: int = 0
    requeues_after_death: int = 0
    requeues_after_busy: int = 0
    busy_answers: int = 0
    slots_reclaimed: int = 0
    stale_facts: int = 0
    agents_lost: int = 0  # without having said that they leave
    states_applied: int = 0  # how often an agent put a state in force while it was linked


@dataclass(slots=True)
class MachineState:
    """`groups` are open; `members` wait, run or drain (their group may be closed)."""

    settings: MachineSettings
    room: WaitingRoom = field(default_factory=WaitingRoom)
    fleet: Fleet = field(default_factory=Fleet)
    groups: dict[GroupId, Group] = field(default_factory=dict)
    members: dict[MemberId, Member] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    actions: list[Action] = field(default_factory=list)
    wanted_revision: int | None = None
    untold: set[AgentId] = field(default_factory=set)  # linked agents that do not know the wanted revision
    lag: RevisionLag = field(default_factory=RevisionLag)
    shutdown_deadline: float | None = None
    is_shutting_down: bool = False
