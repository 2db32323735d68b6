"""Does what the machine says: messages to agents, last events to streams."""

import logging
from collections.abc import Callable
from typing import Any, Final

from balancer.core import actions, events
from balancer.generation_request import GenerationRequest
from balancer.open_group import OpenGroup
from balancer.switchboard_tables import SwitchboardTables
from shared.failures import Failure, FailureKind
from shared.generation import Usage
from shared.log_fields import fields
from shared.messages_to_agent import Cancel, Generate, SetState

_WORTH_A_WARNING: Final = frozenset(
    {
        FailureKind.AGENT_LOST,
        FailureKind.AGENT_SILENT,
        FailureKind.ENGINE_FAILED,
        FailureKind.INTERNAL,
        FailureKind.SLOW_CONSUMER,
    }
)

logger = logging.getLogger(__name__)


class Performer:
    """Synchronous: a message is queued in the agent's link, an event is put into a stream."""

    def __init__(
        self, tables: SwitchboardTables, clock: Callable[[], float], feed: Callable[[events.Event], None]
    ) -> None:
        self._tables = tables
        self._clock = clock
        self._feed = feed
        self._performers: Final[dict[type[Any], Callable[[Any], None]]] = {
            actions.Dispatch: self._dispatch,
            actions.CancelMember: self._cancel_member,
            actions.FinishMember: self._finish_member,
            actions.FailGroup: self._fail_group,
            actions.ReclaimSlot: self._reclaim_slot,
            actions.ForgetMember: self._forget_member,
            actions.SendState: self._send_state,
        }

    def perform(self, action: actions.Action) -> None:
        """Do one thing. What comes of it is a later fact."""
        self._performers[type(action)](action)

    def _dispatch(self, action: actions.Dispatch) -> None:
        agent = self._tables.agents[action.agent]
        stream = self._tables.streams[action.member]
        opened = self._tables.open[action.group]
        if not agent.link.has_room_for(opened.request.most_bytes):
            # As if the agent had said it: back to its place, and another agent, or this one in a while.
            self._feed(events.MemberBusy(action.member, action.attempt))
            return
        identity = agent.link.identity
        stream.begin_attempt(action.attempt, action.agent, identity.name, self._clock())
        if not agent.link.send(_generate(opened, stream.index, action)):
            message = "the request is larger than the link to an agent can carry"
            self._feed(
                events.MemberRefused(action.member, action.attempt, Failure(FailureKind.INVALID_REQUEST, message))
            )

    def _cancel_member(self, action: actions.CancelMember) -> None:
        # The agent's time to confirm begins now.
        self._tables.streams[action.member].last_item_at = self._clock()
        self._tables.agents[action.agent].link.send(Cancel(member=action.member, attempt=action.attempt))

    def _finish_member(self, action: actions.FinishMember) -> None:
        stream = self._tables.streams[action.member]
        stream.end(action.finish_reason, action.usage, None, self._clock(), action.matched_stop)

    def _fail_group(self, action: actions.FailGroup) -> None:
        opened = self._tables.open.get(action.group)
        if opened is None:
            return
        failure = action.failure
        if failure.kind in _WORTH_A_WARNING:  # the others' sentences may quote the request
            logger.warning(
                "request %s failed: %s: %s",
                opened.request_id,
                failure.kind,
                failure.message,
                extra=fields(request_id=opened.request_id),
            )
        for stream in opened.streams:
            stream.end(None, Usage(), failure, self._clock())
        if failure.kind is FailureKind.SLOW_CONSUMER:
            opened.abort()

    def _reclaim_slot(self, action: actions.ReclaimSlot) -> None:
        logger.warning(
            "agent %s never confirmed that it stopped member %s: its slot counts as free again",
            action.agent,
            action.member,
        )

    def _forget_member(self, action: actions.ForgetMember) -> None:
        del self._tables.streams[action.member]

    def _send_state(self, action: actions.SendState) -> None:
        state = self._tables.applicable_state
        assert state is not None
        sent = self._tables.agents[action.agent].link.send(SetState(revision=action.revision, state=state))
        if not sent:
            logger.error("the state of revision %s is larger than the link to an agent can carry", action.revision)


def _generate(opened: OpenGroup, index: int, action: actions.Dispatch) -> Generate:
    request: GenerationRequest = opened.request
    member = next(one for one in request.members if one.index == index)
    raw_prompt, prompt_token_ids = request.prompt_of(member)
    options = request.options
    return Generate(
        member=action.member,
        attempt=action.attempt,
        request_id=request.request_id,
        raw_prompt=raw_prompt,
        prompt_token_ids=prompt_token_ids,
        max_tokens=request.max_tokens,
        seed=member.seed,
        priority=request.priority,
        constraint=request.constraint,
        prefix_hashes=list(request.prefix_hashes),
        sampling=options.sampling,
        stop=options.stop,
        logprobs=options.logprobs,
        echo=options.echo,
        adapter=options.adapter,
        parses_special=options.parses_special,
        traceparent=request.traceparent,
    )
