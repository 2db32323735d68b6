"""Keeps the account of each request while it runs, and closes it exactly once, whatever happens to the handler.

A route opens an account around everything that it does for a request:

with self.books.open(Endpoint.COMPLETE, answer_id, request) as account:
    return account.answered(await self._answer(request, account))

An exception that passes through is cancellation, which means that the client has left, or a bug of ours.
"""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, TypeVar

from aiohttp import web

from balancer.choice_tokens import ChoiceTokens
from balancer.generation_request import GenerationRequest
from balancer.open_group import OpenGroup
from balancer.request_names import REQUEST_ID, REQUEST_ID_HEADER
from balancer.request_record import Endpoint, QuietObserver, RequestObserver, RequestRecord, outcome_of
from balancer.response_stream import Accepted, Ended, StreamEvent, Tokens
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.log_fields import fields
from shared.trace_context import TRACEPARENT, TraceContext, read_traceparent

_SAFE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_TELLS_NO_END: Final = frozenset({None, FinishReason.CANCELLED})

Response = TypeVar("Response", bound=web.StreamResponse)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestBooks:
    """What the routes share. `makes_spans`: traces are exported, so each request has a span of its own."""

    observers: tuple[RequestObserver, ...] = ()
    makes_spans: bool = False
    log_prompt: Callable[[GenerationRequest], None] | None = None
    clock: Callable[[], float] = time.monotonic

    def open(self, endpoint: Endpoint, request_id: str, request: web.BaseRequest) -> "RequestAccount":
        """A request has come. The account is a context manager, and entered at once."""
        headers = request.headers
        own_id = headers.get(REQUEST_ID_HEADER)
        record = RequestRecord(
            request_id,
            endpoint,
            self.clock(),
            trace=self._trace(headers.getall(TRACEPARENT, [])),
            client_request_id=own_id if own_id is not None and _SAFE_ID.fullmatch(own_id) else None,
        )
        return RequestAccount(record, self, request)

    def _trace(self, given: Sequence[str]) -> TraceContext | None:
        above = read_traceparent(given[0]) if len(given) == 1 else None  # several contradict each other
        if not self.makes_spans:
            return above
        if above is None:
            above = TraceContext(secrets.token_hex(16), None, is_sampled=True)
        return replace(above, span_id=secrets.token_hex(8))


QUIET_BOOKS: Final = RequestBooks()
"""Nobody hears of anything."""


class RequestAccount:
    """One request's. `record` is complete when the block has ended."""

    __slots__ = (
        "_books",
        "_choices",
        "_choices_per_prompt",
        "_clock",
        "_endpoint",
        "_group",
        "_has_left",
        "_hears_tokens",
        "_names",
        "_stream",
        "record",
    )

    def __init__(self, record: RequestRecord, books: RequestBooks, request: web.BaseRequest) -> None:
        self.record = record
        self._books = books
        self._endpoint = record.endpoint
        self._hears_tokens = [one.tokens_relayed for one in books.observers if _hears_tokens(one)]
        self._clock = books.clock
        self._names = request
        self._names[REQUEST_ID] = record.request_id
        self._choices: dict[int, ChoiceTokens] = {}
        self._choices_per_prompt = 1
        self._group: OpenGroup | None = None
        self._has_left = False
        self._stream: web.StreamResponse | None = None

    # What the routes tell

    def named(self, request_id: str) -> None:
        """The client chose the name of the answer."""
        self.record.request_id = self._names[REQUEST_ID] = request_id

    @property
    def log_fields(self) -> dict[str, Any]:
        """For the `extra` of a line about the request."""
        return fields(request_id=self.record.request_id, trace_id=self.record.trace_id)

    @property
    def traceparent(self) -> str | None:
        """What the agent is told of the trace."""
        return None if self.record.trace is None else self.record.trace.traceparent

    def streams_into(self, response: web.StreamResponse) -> None:
        """What a stream's head will be sent with, if it comes to that."""
        self._stream = response

    def admitted(self, group: OpenGroup, *, choices_per_prompt: int = 1) -> None:
        """The request waits for a slot. Choices are numbered prompt by prompt."""
        self._group = group
        self._choices_per_prompt = choices_per_prompt
        self._choices = {stream.index: ChoiceTokens() for stream in group.streams}
        self.record.choices = len(group.streams)
        self.record.max_tokens = group.request.max_tokens
        self.record.sampling = group.request.options.sampling
        self.record.admitted_at = self._clock()
        if self._books.log_prompt is not None:
            self._books.log_prompt(group.request)

    def read(self, index: int, events: Sequence[StreamEvent]) -> None:
        """One read of a choice's stream. The token path: an answer costs one call for each read, not for each token."""
        tokens = 0
        for event in events:
            if type(event) is Tokens:
                tokens += len(event[1][3])  # its item's ids; by name it takes three times as long
            else:
                self._note(index, event)
        if not tokens:
            return
        now = self._clock()
        choice = self._choices[index]
        before = choice.last_token_at
        choice.last_token_at = now
        choice.relayed_tokens += tokens
        if before is not None:
            for tokens_relayed in self._hears_tokens:
                tokens_relayed(self._endpoint, now - before, tokens)
        elif self.record.first_token_at is None:
            self.record.first_token_at = now

    def failed(self, kind: FailureKind) -> None:
        """Why there is no whole answer; the first reason counts."""
        if self.record.failure is None:
            self.record.failure = kind

    def client_left(self) -> None:
        """Nobody reads the rest."""
        self._has_left = True

    def answered(self, response: Response) -> Response:
        """What the handler returns; it may be an error."""
        is_dropped = self._has_left or self.record.failure is FailureKind.SLOW_CONSUMER
        if not is_dropped:
            self.record.status = response.status
        if response.status >= 400 and not self._has_left:
            self.failed(FailureKind.INVALID_REQUEST if response.status < 500 else FailureKind.INTERNAL)
        return response

    # The whole of it

    def __enter__(self) -> "RequestAccount":
        for observer in self._books.observers:
            observer.began(self._endpoint)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, asyncio.CancelledError):
            self.client_left()
        elif error is not None:
            self.failed(FailureKind.INTERNAL)
            self.record.status = 500
        if self._stream is not None and self._stream.prepared:  # whatever came later
            self.record.status = self._stream.status
        self._close()

    def _note(self, index: int, event: StreamEvent) -> None:
        record, choice = self.record, self._choices[index]
        if event.agent_name is not None and event.agent_name not in record.agent_names:
            record.agent_names.append(event.agent_name)
        if isinstance(event, Accepted):
            choice.prompt_tokens = event.prompt_tokens
            if record.accepted_at is None:
                record.accepted_at = self._clock()
        elif isinstance(event, Ended):
            choice.usage = event.usage
            if event.failure is not None:
                self.failed(event.failure.kind)
            elif event.finish_reason in _TELLS_NO_END:  # an agent gave up what nobody had asked it to
                self.failed(FailureKind.INTERNAL)
            else:
                assert event.finish_reason is not None
                record.finish_reasons.append(event.finish_reason)

    def _close(self) -> None:
        record = self.record
        record.ended_at = self._clock()
        if self._group is not None:
            if self._group.is_aborted:  # then we were cancelled in a write, and have not read why
                record.failure = FailureKind.SLOW_CONSUMER
            dispatched = [one.dispatched_at for one in self._group.streams if one.dispatched_at is not None]
            record.dispatched_at = min(dispatched, default=None)
        record.outcome = outcome_of(record, has_left=self._has_left)
        for index, choice in self._choices.items():
            choice.add_to(record, is_first_of_prompt=index % self._choices_per_prompt == 0)
        for observer in self._books.observers:
            try:
                observer.ended(record)
            except Exception:  # who counts must not take from who is served, nor from the next who counts
                _log.exception("request %s could not be recorded", record.request_id, extra=self.log_fields)


def _hears_tokens(observer: RequestObserver) -> bool:
    own = getattr(type(observer), "tokens_relayed", None)
    return own is not QuietObserver.tokens_relayed
