"""The balancer as a value: facts in, things to do out. It never waits, logs or looks at a clock.

Rules: every event goes through `handle`; work is assigned in `matching.match` and nowhere else; groups and members
move by the functions of `placement`. A fact about a member's earlier attempt, or about somebody unknown, is normal
(messages cross) and is counted; an event that no correct driver can send raises ImpossibleEvent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from balancer.core import events as facts
from balancer.core.actions import Action
from balancer.core.agent_facts import AgentFactsPart
from balancer.core.client_facts import ClientFactsPart
from balancer.core.groups import MemberPhase
from balancer.core.invariants import check_invariants
from balancer.core.matching import match
from balancer.core.member_facts import MemberFactsPart
from balancer.core.state import Counters, MachineSettings, MachineState
from balancer.core.story import Story
from shared.identifiers import GroupId


class ImpossibleEvent(Exception):
    """The driver reported something that cannot have happened; the message ends with the story so far."""


@dataclass(frozen=True, slots=True)
class BalancerStatistics:
    """Gauges are exact at the moment of asking; `counters` are totals since the start.

    `slots_processing` counts slots taken by this balancer, those of cancelled members (`members_draining`) included.
    `behind_since`: since when some agent has not put the wanted state in force, by the machine's clock; None: all have.
    """

    agents: int
    slots_total: int
    slots_processing: int
    requests_buffered: int
    groups_open: int
    members_waiting: int
    members_running: int
    members_draining: int
    behind_since: float | None
    counters: Counters


class Machine:
    """All decisions about who gets which slot."""

    def __init__(self, settings: MachineSettings, story: Story | None = None) -> None:
        self._state = MachineState(settings)
        self._story = Story() if story is None else story
        clients = ClientFactsPart(self._state, self._story)
        members = MemberFactsPart(self._state)
        agents = AgentFactsPart(self._state)
        self._handlers: Final[dict[type[Any], Callable[[Any, float], None]]] = {
            facts.RequestArrived: clients.on_request_arrived,
            facts.ClientLeft: clients.on_client_left,
            facts.ConsumerTooSlow: clients.on_consumer_too_slow,
            facts.TimePassed: clients.on_time_passed,
            facts.ShutdownBegun: clients.on_shutdown_begun,
            facts.ShutdownEnds: clients.on_shutdown_ends,
            facts.AgentJoined: agents.on_agent_joined,
            facts.AgentStatusChanged: agents.on_agent_status_changed,
            facts.AgentLost: agents.on_agent_lost,
            facts.DesiredStateChanged: agents.on_desired_state_changed,
            facts.MemberAccepted: members.on_member_accepted,
            facts.FirstItem: members.on_first_item,
            facts.MemberBusy: members.on_member_busy,
            facts.MemberRefused: members.on_member_refused,
            facts.MemberEnded: members.on_member_ended,
            facts.MemberSilent: members.on_member_silent,
            facts.MemberBroken: members.on_member_broken,
        }

    def handle(self, event: facts.Event, now: float) -> list[Action]:
        """Take in one fact; returns what must be done, in order. `now` is in seconds and never goes back.

        Raises ImpossibleEvent; the state is then as if the event had not come.
        """
        state = self._state
        self._refuse_impossible(event)
        subject = self._subject(event)
        state.actions = []
        self._handlers[type(event)](event, now)
        match(state)
        actions, state.actions = state.actions, []
        self._story.record(now, event, actions, subject)
        if state.settings.checks_every_event:
            check_invariants(state)
        return actions

    # Questions

    def next_deadline(self) -> float | None:
        """When `TimePassed` should be reported if nothing else happens before; None: never."""
        state = self._state
        deadlines = (state.room.next_deadline(), state.fleet.next_deadline(), state.shutdown_deadline)
        return min((one for one in deadlines if one is not None), default=None)

    def statistics(self) -> BalancerStatistics:
        """A frozen record of all figures."""
        state = self._state
        phases = [member.phase for member in state.members.values()]
        counters = state.counters
        return BalancerStatistics(
            agents=len(state.fleet),
            slots_total=state.fleet.slots_total,
            slots_processing=state.fleet.slots_taken,
            requests_buffered=state.room.buffered,
            groups_open=len(state.groups),
            members_waiting=phases.count(MemberPhase.WAITING),
            members_running=phases.count(MemberPhase.RUNNING),
            members_draining=phases.count(MemberPhase.DRAINING),
            behind_since=state.lag.since,
            counters=Counters(**{name: getattr(counters, name) for name in Counters.__slots__}),
        )

    def slots_processing(self) -> dict[str, int]:
        """Slots that this balancer has taken, by agent id."""
        return {agent.agent_id: len(agent.members) for agent in self._state.fleet}

    @property
    def requests_buffered(self) -> int:
        """Groups that wait and of which nothing runs; O(1)."""
        return self._state.room.buffered

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, runs or drains; O(1)."""
        return not self._state.groups and not self._state.members

    def check_invariants(self) -> None:
        """Raises InvariantBroken if the records contradict each other."""
        check_invariants(self._state)

    def story(self, request_id: str) -> tuple[str, ...] | None:
        """What happened to a request, oldest first; None when nothing of it is kept."""
        return self._story.of_request(request_id)

    def __repr__(self) -> str:
        state = self._state
        return f"<Machine {state.fleet!r} {state.room!r} {len(state.groups)} open>"

    # Private

    def _refuse_impossible(self, event: facts.Event) -> None:
        state = self._state
        problem = None
        if isinstance(event, facts.RequestArrived):
            if event.group in state.groups or any(one in state.members for one in event.members):
                problem = f"group {event.group} or one of its members came before"
            elif not event.members:
                problem = f"group {event.group} has no members"
        elif isinstance(event, facts.AgentJoined) and state.fleet.get(event.agent) is not None:
            problem = f"agent {event.agent} joined twice"
        if problem is not None:
            raise ImpossibleEvent("\n  ".join((problem, *self._story.recent())))

    def _subject(self, event: facts.Event) -> GroupId | None:
        """The group that an event is about; asked before the event changes that."""
        group: GroupId | None = getattr(event, "group", None)
        if group is not None:
            return group
        member = self._state.members.get(getattr(event, "member", None))  # type: ignore[arg-type]
        return None if member is None else member.group.group
