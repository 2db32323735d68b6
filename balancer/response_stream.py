"""One bounded mailbox per member, between the reader of an agent's websocket and the writer of a client's answer.

The writing side is synchronous and never waits; the reading side takes all there is at once, so a writer that lags
gets many events for one wake-up. The bound is in bytes, because a slow client must cost a known amount of memory.
The stream also keeps the record of delivery: the token ids and the number of characters that went to the client,
which is what another agent would need to go on from there.
"""

import asyncio
from array import array
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from shared.failures import Failure, FailureKind
from shared.generation import FinishReason, Usage
from shared.identifiers import AgentId, GroupId, MemberId
from shared.messages_from_agent import TokenItem

DEFAULT_MAX_PENDING_BYTES = 1024 * 1024
EVENT_OVERHEAD_BYTES = 160  # a token item of one token and its event, as Python objects, besides the text
FURTHER_TOKEN_BYTES = 36  # an id and its place in the tuple


class Accepted(NamedTuple):
    """An agent took the member. Comes at most once, before any tokens."""

    prompt_tokens: int
    agent_name: str | None


class Tokens(NamedTuple):
    """Some tokens; without any id text alone, or log-probabilities of some of the prompt's tokens."""

    agent_name: str | None
    item: TokenItem


class Ended(NamedTuple):
    """The last event of every stream, exactly once: a finish reason, or a failure."""

    agent_name: str | None
    finish_reason: FinishReason | None
    usage: Usage
    failure: Failure | None
    matched_stop: str | int | None = None


StreamEvent = Accepted | Tokens | Ended


class PutOutcome(Enum):
    """What became of an item."""

    KEPT = "kept"
    FIRST = "first"  # kept, and the first one with tokens
    DROPPED = "dropped"  # nobody reads any more
    OUT_OF_ORDER = "out_of_order"  # a gap or a repetition: the agent is at fault
    OVER_BOUND = "over_bound"  # the reader is too slow


class ResponseStream:
    """The answer to one member, as it comes. One reader; writers are the switchboard's methods.

    `attempt`, `agent_id` and `last_item_at` belong to the switchboard: which dispatch may write here, and when it
    last gave a sign of life.
    """

    __slots__ = (
        "_events",
        "_has_accepted",
        "_max_pending_bytes",
        "_pending_bytes",
        "_waiter",
        "agent_id",
        "agent_name",
        "attempt",
        "delivered_characters",
        "dispatched_at",
        "group",
        "index",
        "is_closed",
        "is_ended",
        "last_item_at",
        "member",
        "token_ids",
        "unread_since",
    )

    def __init__(
        self,
        group: GroupId,
        member: MemberId,
        index: int = 0,
        max_pending_bytes: int = DEFAULT_MAX_PENDING_BYTES,
    ) -> None:
        self.group = group
        self.member = member
        self.index = index  # the choice number of the member in its group
        self.attempt = 0
        self.agent_id: AgentId | None = None  # None: on no agent
        self.agent_name: str | None = None
        self.last_item_at = 0.0
        self.dispatched_at: float | None = None  # when it first went to an agent
        self.token_ids: array[int] = array("i")
        self.delivered_characters = 0
        self.unread_since: float | None = None  # since when the oldest event in the mailbox waits for its reader
        self.is_ended = False  # `Ended` was put
        self.is_closed = False  # the reader left
        self._has_accepted = False
        self._events: list[StreamEvent] = []
        self._pending_bytes = 0
        self._max_pending_bytes = max_pending_bytes
        self._waiter: asyncio.Future[None] | None = None

    # The writing side

    def begin_attempt(self, attempt: int, agent_id: AgentId, agent_name: str | None, now: float) -> None:
        """The member was dispatched; from now on items of this attempt count, and no others."""
        self.attempt = attempt
        self.agent_id = agent_id
        self.agent_name = agent_name
        self.last_item_at = now
        if self.dispatched_at is None:
            self.dispatched_at = now

    def leave_agent(self) -> None:
        """The agent gave the member back, or is gone."""
        self.agent_id = None

    def put_accepted(self, prompt_tokens: int, now: float) -> None:
        """The agent answered `accepted`. A second agent's answer, after the first was lost, is not repeated."""
        self.last_item_at = now
        if not (self._has_accepted or self.is_ended or self.is_closed):
            self._has_accepted = True
            self._put(Accepted(prompt_tokens, self.agent_name), EVENT_OVERHEAD_BYTES, now)

    def put_item(self, item: TokenItem, now: float) -> PutOutcome:
        """Keep an item for the reader. An item with neither ids nor anything of the prompt is only a sign of life."""
        self.last_item_at = now
        _, _, first_token_index, ids, text, _, logprobs = item
        if self.is_closed or self.is_ended:
            return PutOutcome.DROPPED
        if not ids and not text and not logprobs:
            return PutOutcome.KEPT
        known = len(self.token_ids)
        if first_token_index != known:
            return PutOutcome.OUT_OF_ORDER
        try:
            self.token_ids.extend(ids)
        except OverflowError:  # no vocabulary has ids beyond 31 bits
            return PutOutcome.OUT_OF_ORDER
        self.delivered_characters += len(text)
        size = EVENT_OVERHEAD_BYTES + FURTHER_TOKEN_BYTES * (len(ids) - 1)
        size += len(text) if text.isascii() else 4 * len(text)
        if logprobs is not None:
            size += len(logprobs)
        if self._pending_bytes + size > self._max_pending_bytes:
            return PutOutcome.OVER_BOUND
        self._put(Tokens(self.agent_name, item), size, now)
        return PutOutcome.KEPT if known else PutOutcome.FIRST

    def end(
        self,
        finish_reason: FinishReason | None,
        usage: Usage,
        failure: Failure | None,
        now: float,
        matched_stop: str | int | None = None,
    ) -> None:
        """Put the last event; no-op when it was put before.

        What came before is still read first, except by a reader that was too slow for it.
        """
        if self.is_ended or self.is_closed:
            return
        self.is_ended = True
        if failure is not None and failure.kind is FailureKind.SLOW_CONSUMER:
            self.take_nowait()
        self._put(Ended(self.agent_name, finish_reason, usage, failure, matched_stop), 0, now)

    def close(self) -> None:
        """The reader left: keep nothing for it any more."""
        self.is_closed = True
        self.take_nowait()
        self.token_ids = array("i")
        self._wake()

    # The reading side

    async def wait_events(self) -> list[StreamEvent]:
        """Everything that is there, at least one event; waits for the first. `Ended` is always the last of all.

        Being cancelled here loses nothing: events stay in the mailbox. Raises RuntimeError when there is a second
        reader, or nothing can come any more.
        """
        while not self._events:
            if self._waiter is not None or self.is_closed:
                raise RuntimeError("a response stream has one reader, until it leaves")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self.take_nowait()

    def take_nowait(self) -> list[StreamEvent]:
        """Everything that is there, perhaps nothing."""
        events, self._events = self._events, []
        self._pending_bytes = 0
        self.unread_since = None
        return events

    @property
    def pending_bytes(self) -> int:
        """About how much memory the mailbox takes."""
        return self._pending_bytes

    def _put(self, event: StreamEvent, size: int, now: float) -> None:
        self._events.append(event)
        self._pending_bytes += size
        if self.unread_since is None:
            self.unread_since = now
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def wake_on_event(self, waiter: asyncio.Future[None] | None) -> None:
        """For `wait_any`: a reader of several streams waits with one future for all of them; None: no longer."""
        if waiter is not None and (self._waiter is not None or self.is_closed):
            raise RuntimeError("a response stream has one reader, until it leaves")
        self._waiter = waiter

    @property
    def has_events(self) -> bool:
        """Whether anything is in the mailbox."""
        return bool(self._events)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "ended" if self.is_ended else "open"
        return f"<ResponseStream member {self.member} {state} | {len(self.token_ids)} tokens>"


async def wait_any(streams: Sequence[ResponseStream]) -> None:
    """Wait until one of them has events. Being cancelled here loses nothing.

    Raises RuntimeError when one has a second reader, or nothing can come any more.
    """
    if any(stream.has_events for stream in streams):
        return
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    registered: list[ResponseStream] = []
    try:
        for stream in streams:
            stream.wake_on_event(waiter)
            registered.append(stream)
        await waiter
    finally:
        for stream in registered:
            stream.wake_on_event(None)
