"""Drives the balancer's machine in a test's own words. Invariants are checked after every event."""

from collections.abc import Iterator
from itertools import count
from typing import TypeVar

from balancer.core import events
from balancer.core.actions import Action, CancelMember, Dispatch, FailGroup, FinishMember, ForgetMember, SendState
from balancer.core.machine import Machine
from balancer.core.state import MachineSettings
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason, Usage
from shared.identifiers import AgentId, GroupId, MemberId

A = TypeVar("A", bound=Action)


class MachineDriver:
    """Time stands still unless `wait` moves it. Every method returns the machine's actions."""

    def __init__(self, **settings: object) -> None:
        self.machine = Machine(MachineSettings(checks_every_event=True, **settings))  # type: ignore[arg-type]
        self.now = 1000.0
        self.attempts: dict[MemberId, int] = {}
        self.agent_of: dict[MemberId, AgentId] = {}
        self.forgotten: list[MemberId] = []
        self._numbers = count(1)

    def tell(self, event: events.Event) -> list[Action]:
        actions = self.machine.handle(event, self.now)
        for action in actions:
            if isinstance(action, Dispatch):
                self.attempts[action.member] = action.attempt
                self.agent_of[action.member] = action.agent
            elif isinstance(action, ForgetMember):
                self.forgotten.append(action.member)
        return actions

    # What clients do

    def arrive(self, *, members: int = 1, priority: int = 0) -> tuple[GroupId, tuple[MemberId, ...], list[Action]]:
        group = GroupId(next(self._numbers))
        ids = tuple(MemberId(next(self._numbers)) for _ in range(members))
        return group, ids, self.tell(events.RequestArrived(group, f"request-{group}", ids, priority))

    def arrive_one(self, priority: int = 0) -> tuple[GroupId, MemberId, list[Action]]:
        group, ids, actions = self.arrive(priority=priority)
        return group, ids[0], actions

    def leave(self, group: GroupId) -> list[Action]:
        return self.tell(events.ClientLeft(group))

    # What agents do

    def join(self, agent: str, slots: int = 1, **facts: object) -> list[Action]:
        return self.tell(events.AgentJoined(AgentId(agent), agent, _facts(slots, facts)))

    def status(self, agent: str, slots: int = 1, **facts: object) -> list[Action]:
        return self.tell(events.AgentStatusChanged(AgentId(agent), _facts(slots, facts)))

    def lose(self, agent: str) -> list[Action]:
        return self.tell(events.AgentLost(AgentId(agent)))

    def accept(self, member: MemberId) -> list[Action]:
        return self.tell(events.MemberAccepted(member, self.attempts[member], 5))

    def first_item(self, member: MemberId) -> list[Action]:
        return self.tell(events.FirstItem(member, self.attempts[member]))

    def busy(self, member: MemberId) -> list[Action]:
        return self.tell(events.MemberBusy(member, self.attempts[member]))

    def refuse(self, member: MemberId, kind: FailureKind = FailureKind.PROMPT_TOO_LONG) -> list[Action]:
        return self.tell(events.MemberRefused(member, self.attempts[member], Failure(kind, "it is too long")))

    def end(self, member: MemberId, reason: FinishReason = FinishReason.STOP) -> list[Action]:
        return self.tell(events.MemberEnded(member, self.attempts[member], reason, Usage(prompt_tokens=5)))

    def break_off(self, member: MemberId) -> list[Action]:
        failure = Failure(FailureKind.ENGINE_FAILED, "the engine failed")
        return self.tell(events.MemberEnded(member, self.attempts[member], None, Usage(), failure))

    def silent(self, member: MemberId) -> list[Action]:
        return self.tell(events.MemberSilent(member, self.attempts[member]))

    # Time

    def wait(self, seconds: float) -> list[Action]:
        """Let time pass as the switchboard would: `TimePassed` at each deadline."""
        end = self.now + seconds
        actions: list[Action] = []
        while (deadline := self.machine.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            actions += self.tell(events.TimePassed())
        self.now = end
        return actions

    # Questions

    @property
    def slots(self) -> str:
        figures = self.machine.statistics()
        return f"{figures.slots_processing}/{figures.slots_total}"

    @property
    def buffered(self) -> int:
        return self.machine.statistics().requests_buffered


def _facts(slots: int, facts: dict[str, object]) -> events.AgentFacts:
    return events.AgentFacts(slots, **facts)  # type: ignore[arg-type]


def of_kind(actions: list[Action], kind: type[A]) -> Iterator[A]:
    return (action for action in actions if isinstance(action, kind))


def dispatched(actions: list[Action]) -> list[tuple[MemberId, str]]:
    """Members and the agents that they were sent to, in order."""
    return [(action.member, str(action.agent)) for action in of_kind(actions, Dispatch)]


def cancelled(actions: list[Action]) -> list[MemberId]:
    return [action.member for action in of_kind(actions, CancelMember)]


def finished(actions: list[Action]) -> list[MemberId]:
    return [action.member for action in of_kind(actions, FinishMember)]


def failures(actions: list[Action]) -> dict[GroupId, FailureKind]:
    return {action.group: action.failure.kind for action in of_kind(actions, FailGroup)}


def told(actions: list[Action]) -> list[str]:
    """Agents that are sent the state, in order."""
    return [str(action.agent) for action in of_kind(actions, SendState)]
