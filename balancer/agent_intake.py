"""What agents say, turned into facts for the machine and items for streams.

Tokens do not pass through the machine: they go from a frame straight into the member's stream, after a check that
this attempt of this agent may speak about that member. Everything else is stale, is counted and has no effect.
"""

import logging
from collections.abc import Callable

from balancer.agent_queries import AgentQueries
from balancer.core import events
from balancer.linked_agents import Link, LinkedAgent, facts_of
from balancer.response_stream import PutOutcome, ResponseStream
from balancer.switchboard_tables import SwitchboardSettings, SwitchboardTables
from shared.agent_status import AgentStatus
from shared.failures import Failure, FailureKind
from shared.identifiers import AgentId, MemberId
from shared.messages_from_agent import (
    Accepted,
    Busy,
    ChatTemplateOverride,
    MessageFromAgent,
    ModelMetadata,
    Refused,
    StatusUpdate,
    TokenFrame,
    TokenItem,
)

REPLACED_CODE = 1008  # policy violation, RFC 6455 7.4.1

logger = logging.getLogger(__name__)


class AgentIntake:
    """Synchronous throughout. `feed` takes a fact to the machine and does what follows."""

    def __init__(
        self,
        tables: SwitchboardTables,
        settings: SwitchboardSettings,
        clock: Callable[[], float],
        feed: Callable[[events.Event], None],
        queries: AgentQueries,
    ) -> None:
        self.stale_messages = 0
        self._tables = tables
        self._settings = settings
        self._clock = clock
        self._feed = feed
        self._queries = queries

    def agent_joined(self, link: Link, status: AgentStatus) -> None:
        """A link is up. An older link with the same agent id is lost by that, and closed."""
        agent_id = link.identity.agent_id
        older = self._tables.agents.get(agent_id)
        if older is not None:
            self.agent_lost(older.link)
            older.link.close(REPLACED_CODE, "replaced by a newer link of the same agent")
        self._tables.agents[agent_id] = LinkedAgent(link, status)
        self._tables.figures.heard(agent_id, link.identity.name, status.figures)
        self._feed(events.AgentJoined(agent_id, link.identity.name, self._facts_of(status)))

    def agent_lost(self, link: Link) -> None:
        """The link is gone; no-op when that was known, or another link has taken its place."""
        agent_id = link.identity.agent_id
        if not self._is_current(link):
            return
        del self._tables.agents[agent_id]
        for stream in self._tables.streams.values():
            if stream.agent_id == agent_id:
                stream.leave_agent()
        self._queries.link_lost(link)
        self._feed(events.AgentLost(agent_id))

    def agent_message(self, link: Link, message: MessageFromAgent) -> None:
        """Anything that an agent says after its first message."""
        if not self._is_current(link):
            return
        if isinstance(message, TokenFrame):
            self._take_tokens(link.identity.agent_id, message)
        elif isinstance(message, StatusUpdate):
            self._take_status(link, message.status)
        elif isinstance(message, ModelMetadata | ChatTemplateOverride):
            self._queries.take_answer(link, message)
        elif isinstance(message, Accepted | Refused | Busy):
            stream = self._stream_of(link.identity.agent_id, message.member, message.attempt)
            if stream is not None:
                self._take_answer(stream, message)

    def _take_tokens(self, agent_id: AgentId, frame: TokenFrame) -> None:
        """The hot path: one look-up per item."""
        now = self._clock()
        streams = self._tables.streams
        for item in frame.items:
            stream = streams.get(MemberId(item.member))
            if stream is None or stream.attempt != item.attempt or stream.agent_id != agent_id:
                self.stale_messages += 1
                continue
            outcome = stream.put_item(item, now)
            if outcome is not PutOutcome.KEPT:
                self._react(stream, item, outcome)
        for end in frame.ends:
            stream = self._stream_of(agent_id, end.member, end.attempt)
            if stream is not None:
                failure = None if end.failure is None else _of_an_agent(end.failure)
                self._feed(
                    events.MemberEnded(
                        stream.member, end.attempt, end.finish_reason, end.usage, failure, end.matched_stop
                    )
                )

    def _react(self, stream: ResponseStream, item: TokenItem, outcome: PutOutcome) -> None:
        if outcome is PutOutcome.FIRST:
            self._feed(events.FirstItem(stream.member, item.attempt))
        elif outcome is PutOutcome.OVER_BOUND:
            self._feed(events.ConsumerTooSlow(stream.group))
        elif outcome is PutOutcome.OUT_OF_ORDER:
            failure = Failure(FailureKind.INTERNAL, "the agent's tokens came out of order")
            logger.warning("agent %s: tokens of member %s came out of order", stream.agent_id, stream.member)
            self._feed(events.MemberBroken(stream.member, item.attempt, failure))

    def _take_status(self, link: Link, status: AgentStatus) -> None:
        agent = self._tables.agents[link.identity.agent_id]
        if status.status_version > agent.status.status_version:
            agent.status = status
            self._tables.figures.heard(link.identity.agent_id, link.identity.name, status.figures)
            self._feed(events.AgentStatusChanged(link.identity.agent_id, self._facts_of(status)))

    def _take_answer(self, stream: ResponseStream, message: Accepted | Refused | Busy) -> None:
        if isinstance(message, Accepted):
            stream.put_accepted(message.prompt_tokens, self._clock())
            self._feed(events.MemberAccepted(stream.member, message.attempt, message.prompt_tokens))
        elif isinstance(message, Refused):
            self._feed(events.MemberRefused(stream.member, message.attempt, _of_an_agent(message.failure)))
        else:
            stream.leave_agent()
            self._feed(events.MemberBusy(stream.member, message.attempt))

    def _stream_of(self, agent_id: AgentId, member: int, attempt: int) -> ResponseStream | None:
        """The stream of a member that this attempt of this agent may speak about; else the message is stale."""
        stream = self._tables.streams.get(MemberId(member))
        if stream is None or stream.attempt != attempt or stream.agent_id != agent_id:
            self.stale_messages += 1
            return None
        return stream

    def _is_current(self, link: Link) -> bool:
        agent = self._tables.agents.get(link.identity.agent_id)
        return agent is not None and agent.link is link

    def _facts_of(self, status: AgentStatus) -> events.AgentFacts:
        return facts_of(status, self._settings.inference_item_timeout_seconds)


def _of_an_agent(failure: Failure) -> Failure:
    """Only this side knows how fast a client reads; believed, it would drop the connection without a last line."""
    if failure.kind is FailureKind.SLOW_CONSUMER:
        return Failure(FailureKind.INTERNAL, "the agent spoke of a slow client, which it cannot know")
    return failure
