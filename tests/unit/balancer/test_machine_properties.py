"""Random lives of a balancer against a simple model: exact counts, nobody lost, each ends exactly once, in order."""

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from balancer.core import events
from balancer.core.actions import Action, CancelMember, Dispatch, FailGroup, FinishMember, ForgetMember, SendState
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.identifiers import GroupId, MemberId
from tests.support.machine_driver import MachineDriver

AGENTS = ("a", "b", "c")
TIMEOUT_SECONDS = 10.0

numbers = strategies.integers(min_value=0, max_value=1000)


class BalancerLife(RuleBasedStateMachine):
    """Keeps its own books from the actions alone and compares them with the machine's statistics."""

    @initialize(room=strategies.integers(0, 3))
    def begin(self, room: int) -> None:
        self.drive = MachineDriver(max_buffered_requests=room, buffered_request_timeout_seconds=TIMEOUT_SECONDS)
        self.slots: dict[str, int] = {}
        self.on_agent: dict[MemberId, str] = {}  # dispatched and not yet released
        self.group_of: dict[MemberId, GroupId] = {}
        self.members_of: dict[GroupId, tuple[MemberId, ...]] = {}
        self.ends: dict[GroupId, str] = {}
        self.done: set[MemberId] = set()  # FinishMember came
        self.forgotten: set[MemberId] = set()
        self.waiting_order: list[tuple[int, int, GroupId]] = []  # (-priority, arrival, group) of single requests
        self.arrivals = 0

    # Books

    def keep(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Dispatch):
                agent = str(action.agent)
                assert action.member not in self.on_agent, "dispatched while it runs"
                assert action.group not in self.ends, "dispatched after its end"
                self.on_agent[action.member] = agent
                taken = sum(1 for one in self.on_agent.values() if one == agent)
                assert taken <= self.slots[agent], "more members than slots"
            elif isinstance(action, FinishMember):
                assert action.member not in self.done
                self.done.add(action.member)
                if self.done.issuperset(self.members_of[action.group]):
                    self.end_group(action.group, "finished")
            elif isinstance(action, FailGroup):
                self.end_group(action.group, action.failure.kind.value)
            elif isinstance(action, ForgetMember):
                assert action.member not in self.forgotten, "forgotten twice"
                self.forgotten.add(action.member)
                self.on_agent.pop(action.member, None)
            elif isinstance(action, CancelMember):
                assert action.member in self.on_agent, "cancelled and not running"
            else:
                assert isinstance(action, SendState) or action.member in self.on_agent

    def end_group(self, group: GroupId, how: str) -> None:
        assert group not in self.ends, f"{group} ended twice: {self.ends[group]}, {how}"
        self.ends[group] = how

    def pick(self, number: int) -> MemberId | None:
        members = sorted(self.on_agent)
        return members[number % len(members)] if members else None

    def open_groups(self) -> list[GroupId]:
        return [group for group in self.members_of if group not in self.ends]

    # Events

    @rule(members=strategies.integers(1, 3), priority=strategies.integers(0, 2))
    def arrive(self, members: int, priority: int) -> None:
        # The group's ids have to be in the books before its actions come.
        group = GroupId(1_000 + 10 * self.arrivals)
        ids = tuple(MemberId(group + 1 + index) for index in range(members))
        self.arrivals += 1
        self.members_of[group] = ids
        self.group_of.update(dict.fromkeys(ids, group))
        self.keep(self.drive.tell(events.RequestArrived(group, f"r{group}", ids, priority)))

    @precondition(lambda self: self.open_groups())
    @rule(number=numbers)
    def client_leaves(self, number: int) -> None:
        groups = self.open_groups()
        group = groups[number % len(groups)]
        self.end_group(group, "left")
        self.keep(self.drive.leave(group))

    @rule(agent=strategies.sampled_from(AGENTS), slots=strategies.integers(0, 3))
    def agent_joins(self, agent: str, slots: int) -> None:
        if agent not in self.slots:
            self.slots[agent] = slots
            self.keep(self.drive.join(agent, slots))

    @rule(
        agent=strategies.sampled_from(AGENTS),
        slots=strategies.integers(0, 3),
        accepting=strategies.booleans(),
        draining=strategies.booleans(),
        processing=strategies.integers(0, 2),
    )
    def status(self, agent: str, slots: int, accepting: bool, draining: bool, processing: int) -> None:
        if agent in self.slots:
            self.slots[agent] = slots
            facts = {"accepting": accepting, "draining": draining, "slots_processing": processing}
            self.keep(self.drive.status(agent, slots, **facts))

    @rule(agent=strategies.sampled_from(AGENTS))
    def agent_lost(self, agent: str) -> None:
        if agent in self.slots:
            del self.slots[agent]
            for member in [one for one, where in self.on_agent.items() if where == agent]:
                del self.on_agent[member]
            self.keep(self.drive.lose(agent))

    @rule(number=numbers, kind=strategies.sampled_from(["accept", "first_item", "silent"]))
    def agent_speaks(self, number: int, kind: str) -> None:
        member = self.pick(number)
        if member is not None:
            self.keep(getattr(self.drive, kind)(member))

    @rule(number=numbers, kind=strategies.sampled_from(["busy", "refuse", "end", "break_off"]))
    def agent_gives_a_member_back(self, number: int, kind: str) -> None:
        member = self.pick(number)
        if member is not None:
            del self.on_agent[member]
            self.keep(getattr(self.drive, kind)(member))

    @rule(number=numbers)
    def member_ends_as_cancelled(self, number: int) -> None:
        member = self.pick(number)
        if member is not None:
            del self.on_agent[member]
            self.keep(self.drive.end(member, FinishReason.CANCELLED))

    @rule(number=numbers)
    def consumer_is_slow(self, number: int) -> None:
        groups = self.open_groups()
        if groups:
            self.keep(self.drive.tell(events.ConsumerTooSlow(groups[number % len(groups)])))

    @rule(seconds=strategies.floats(0.0, 12.0))
    def time_passes(self, seconds: float) -> None:
        self.keep(self.drive.wait(seconds))

    @rule(revision=strategies.integers(1, 5))
    def desired_state(self, revision: int) -> None:
        self.keep(self.drive.tell(events.DesiredStateChanged(revision)))

    # What always holds (besides the machine's own invariants, which the driver checks after every event)

    @invariant()
    def books_agree(self) -> None:
        if not hasattr(self, "drive"):
            return
        figures = self.drive.machine.statistics()
        assert figures.slots_processing == len(self.on_agent)
        assert figures.groups_open == len(self.open_groups())
        assert figures.slots_total == sum(self.slots.values())
        known = figures.members_waiting + figures.members_running + figures.members_draining
        assert known == len(self.group_of) - len(self.forgotten)

    def teardown(self) -> None:
        """In the end, whatever happened: a good agent finishes all that is left, and every slot is free."""
        if not hasattr(self, "drive"):
            return
        self.slots["last"] = 200
        self.keep(self.drive.join("last", 200))
        for _ in range(200):
            for member in sorted(self.on_agent):
                del self.on_agent[member]
                reason = FinishReason.STOP
                self.keep(self.drive.end(member, reason))
            self.keep(self.drive.wait(1.0))
            if self.drive.machine.is_idle:
                break
        assert self.drive.machine.is_idle
        assert not self.open_groups()
        assert self.forgotten == set(self.group_of)
        figures = self.drive.machine.statistics()
        assert (figures.slots_processing, figures.requests_buffered) == (0, 0)
        allowed = {"finished", "left", *(kind.value for kind in FailureKind)}
        assert set(self.ends.values()) <= allowed


TestBalancerLife = BalancerLife.TestCase
TestBalancerLife.settings = settings(stateful_step_count=40)


class FirstComeFirstServed(RuleBasedStateMachine):
    """Single requests on agents that come, end members and say busy: whoever is dispatched was first in line."""

    @initialize()
    def begin(self) -> None:
        self.drive = MachineDriver(max_buffered_requests=1000, buffered_request_timeout_seconds=1e9)
        self.drive.join("a", 2)
        self.line: dict[MemberId, tuple[int, int]] = {}
        self.place: dict[MemberId, tuple[int, int]] = {}
        self.running: list[MemberId] = []

    def keep(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Dispatch):
                assert self.line[action.member] == min(self.line.values())
                del self.line[action.member]
                self.running.append(action.member)

    @rule(priority=strategies.integers(0, 2))
    def arrive(self, priority: int) -> None:
        number = len(self.place) + 1
        member = MemberId(number)
        self.line[member] = self.place[member] = (-priority, number)
        group = GroupId(number)
        self.keep(self.drive.tell(events.RequestArrived(group, f"r{number}", (member,), priority)))

    @rule(number=numbers)
    def end(self, number: int) -> None:
        if self.running:
            self.keep(self.drive.end(self.running.pop(number % len(self.running))))

    @rule(number=numbers)
    def busy(self, number: int) -> None:
        if self.running:
            member = self.running.pop(number % len(self.running))
            self.line[member] = self.place[member]
            self.keep(self.drive.busy(member))

    @rule()
    def another_agent_comes_and_dies(self) -> None:
        self.keep(self.drive.join("b", 1))
        for member in [one for one in self.running if self.drive.agent_of[one] == "b"]:
            self.running.remove(member)
            self.line[member] = self.place[member]
        doomed = [one for one in self.line if self.drive.attempts.get(one, 0) > 1]
        actions = self.drive.lose("b")
        for action in actions:
            if isinstance(action, ForgetMember):
                assert action.member in doomed
                del self.line[action.member]
        self.keep(actions)

    @rule()
    def a_moment_passes(self) -> None:
        self.keep(self.drive.wait(1.0))


TestFirstComeFirstServed = FirstComeFirstServed.TestCase
TestFirstComeFirstServed.settings = settings(stateful_step_count=40)
