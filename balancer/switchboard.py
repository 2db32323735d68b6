"""The only driver of the machine: owns open requests, tells it facts, does what it says.

Everything here is synchronous except `run`, the waits and the questions to agents; nothing awaits while it changes
shared state. What agents say comes in through `agent_intake`, what the machine says goes out through `performer`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from balancer.agent_intake import AgentIntake
from balancer.agent_queries import AgentQueries
from balancer.agent_questions import AgentUnknown
from balancer.change_signal import ChangeSignal
from balancer.core import events
from balancer.core.machine import BalancerStatistics, Machine
from balancer.generation_request import GenerationRequest
from balancer.linked_agents import FleetSnapshot, Link, snapshot_of
from balancer.metrics.figure_sums import FigureSums
from balancer.open_group import OpenGroup
from balancer.performer import Performer
from balancer.response_stream import ResponseStream
from balancer.silence import silent_members, stalled_readers
from balancer.switchboard_tables import SwitchboardSettings, SwitchboardTables
from shared.agent_status import AgentStatus
from shared.desired_state import AgentDesiredState
from shared.identifiers import AgentId, GroupId, MemberId
from shared.messages_from_agent import ChatTemplateOverride, MessageFromAgent, ModelMetadata
from shared.messages_to_agent import GetChatTemplateOverride, GetModelMetadata

SWEEP_INTERVAL_SECONDS = 1.0


class Switchboard:
    """One per balancer; made and used in one event loop. `clock` is monotonic, in seconds. `figures` adds up what
    agents say that they have done."""

    def __init__(
        self,
        machine: Machine,
        clock: Callable[[], float],
        settings: SwitchboardSettings,
        figures: FigureSums | None = None,
    ) -> None:
        self.changes = ChangeSignal()
        self._machine = machine
        self._clock = clock
        self._settings = settings
        self._tables = SwitchboardTables(figures=FigureSums() if figures is None else figures)
        self._queries = AgentQueries(settings.query_timeout_seconds)
        self._intake = AgentIntake(self._tables, settings, clock, self._feed, self._queries)
        self._performer = Performer(self._tables, clock, self._feed)
        self._numbers = count(1)
        self._pending_events: deque[events.Event] = deque()
        self._is_feeding = False
        self._next_sweep = clock() + SWEEP_INTERVAL_SECONDS
        self._armed_for = float("-inf")  # when `run` will wake up by itself
        self._rearm = asyncio.Event()

    # Facts from clients

    def open_group(self, request: GenerationRequest) -> OpenGroup:
        """Admit a request, or refuse it: then its streams have ended already. The caller must `leave` the group."""
        group = GroupId(next(self._numbers))
        streams = tuple(
            ResponseStream(group, MemberId(next(self._numbers)), member.index, self._settings.max_pending_bytes)
            for member in request.members
        )
        opened = OpenGroup(group, request, streams, self._left)
        self._tables.open[group] = opened
        self._tables.streams.update((stream.member, stream) for stream in streams)
        members = tuple(stream.member for stream in streams)
        self._feed(events.RequestArrived(group, request.request_id, members, request.priority, request.prefix_hashes))
        return opened

    def _left(self, opened: OpenGroup) -> None:
        if not opened.is_ended:
            self._feed(events.ClientLeft(opened.group))
        del self._tables.open[opened.group]

    # Facts from agents

    def agent_joined(self, link: Link, status: AgentStatus) -> None:
        """A link is up. An older link with the same agent id is lost by that, and closed."""
        self._intake.agent_joined(link, status)

    def agent_message(self, link: Link, message: MessageFromAgent) -> None:
        """Anything that an agent says after its first message."""
        self._intake.agent_message(link, message)

    def agent_lost(self, link: Link) -> None:
        """The link is gone; no-op when that was known, or another link has taken its place."""
        self._intake.agent_lost(link)

    # Facts from the operator

    def set_desired_state(self, revision: int, state: AgentDesiredState) -> None:
        """What the fleet should run now. Agents are told in waves (see `core.rollout`)."""
        self._tables.wanted_revision = revision
        self._tables.applicable_state = state
        self._feed(events.DesiredStateChanged(revision))

    def begin_shutdown(self, deadline: float) -> None:
        """New requests are refused; those that wait or run go on until `deadline` (by the clock), then fail."""
        self._feed(events.ShutdownBegun(deadline))

    def fail_the_rest(self) -> None:
        """Fail and cancel now whatever still waits or runs."""
        self._feed(events.ShutdownEnds())

    async def wait_drained(self) -> None:
        """Wait until nothing waits, runs or drains. Being cancelled here changes nothing."""
        while not self._machine.is_idle:
            await self.changes.wait_changed(self.changes.version)

    # The clock

    async def run(self) -> None:
        """Report time to the machine when it asks for that, and sweep once a second; until it is cancelled."""
        while True:
            self._rearm.clear()
            deadline = self._machine.next_deadline()
            due = self._next_sweep if deadline is None else min(deadline, self._next_sweep)
            self._armed_for = due
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - self._clock())):
                    await self._rearm.wait()
            self.tick()

    def tick(self) -> None:
        """Do whatever is due by the clock; nothing when nothing is."""
        now = self._clock()
        deadline = self._machine.next_deadline()
        if deadline is not None and deadline <= now:
            self._feed(events.TimePassed())
        if self._next_sweep <= now:
            self._next_sweep = now + SWEEP_INTERVAL_SECONDS
            for silent in silent_members(self._tables, self._settings, now):
                self._feed(silent)
            for stalled in stalled_readers(self._tables, self._settings, now):
                self._feed(stalled)

    # Questions

    def fleet(self) -> FleetSnapshot:
        """All agents as they are now, by name (none last), then id."""
        now = self._clock()
        taken = self._machine.slots_processing()
        snapshots = (snapshot_of(agent, taken.get(key, 0), now) for key, agent in self._tables.agents.items())
        ordered = sorted(snapshots, key=lambda one: (one.name is None, one.name or "", one.agent_id))
        return FleetSnapshot(tuple(ordered), self._tables.wanted_revision, self._tables.applicable_state)

    def statistics(self) -> BalancerStatistics:
        """Exact figures of this moment."""
        return self._machine.statistics()

    @property
    def requests_buffered(self) -> int:
        """Groups that wait and of which nothing runs; O(1)."""
        return self._machine.requests_buffered

    @property
    def stale_messages(self) -> int:
        """How many items and answers came for an attempt that was over."""
        return self._intake.stale_messages

    def story(self, request_id: str) -> tuple[str, ...] | None:
        """What happened to a request, as far as it is remembered."""
        return self._machine.story(request_id)

    def check_invariants(self) -> None:
        """For tests: the machine's records agree with each other."""
        self._machine.check_invariants()

    async def ask_model_metadata(self, agent_id: str) -> dict[str, str] | None:
        """Metadata of the agent's model, if one serves. Raises AgentUnknown, AgentGone, AgentDidNotAnswer."""
        answer = await self._queries.ask(self._link_of(agent_id), lambda number: GetModelMetadata(query=number))
        if not isinstance(answer, ModelMetadata):
            return None
        return answer.metadata

    async def ask_chat_template_override(self, agent_id: str) -> str | None:
        """The override that the agent applies, if any. Raises AgentUnknown, AgentGone, AgentDidNotAnswer."""
        answer = await self._queries.ask(self._link_of(agent_id), lambda number: GetChatTemplateOverride(query=number))
        if not isinstance(answer, ChatTemplateOverride):
            return None
        return answer.content

    def _link_of(self, agent_id: str) -> Link:
        agent = self._tables.agents.get(AgentId(agent_id))
        if agent is None:
            raise AgentUnknown(f"no agent with the id {agent_id!r} is linked")
        return agent.link

    # Feeding the machine

    def _feed(self, event: events.Event) -> None:
        """Tell the machine and do what it says. A fact that comes up meanwhile waits for its turn."""
        self._pending_events.append(event)
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._pending_events:
                for action in self._machine.handle(self._pending_events.popleft(), self._clock()):
                    self._performer.perform(action)
        finally:
            self._is_feeding = False
        self.changes.bump()
        deadline = self._machine.next_deadline()
        if deadline is not None and deadline < self._armed_for:
            self._rearm.set()

    def __repr__(self) -> str:
        return f"<Switchboard {self._machine!r} {len(self._tables.open)} handlers>"
