"""From a generation group to an answer of the compatibility service: whole, or as server-sent events.

Thin: the group's events go in their order to whoever shapes them. Headers wait for the first event, which an agent's
`accepted` is, so that refusals, a full room and time-outs are real statuses.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from aiohttp import web

from balancer.chunked_stream import STALL_SECONDS, ChunkedStream, ClientGone, ClientTooSlow
from balancer.compat_errors import ENDED_SILENTLY, CompatError, error_of_failure, retry_headers
from balancer.generation_request import GenerationRequest
from balancer.json_answers import json_answer
from balancer.open_group import OpenGroup
from balancer.request_account import QUIET_BOOKS, RequestAccount, RequestBooks
from balancer.response_stream import Ended, ResponseStream, StreamEvent, wait_any
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason

KEEP_ALIVE_SECONDS: Final = 10.0

_STREAM_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # asks nginx to pass each event on at once
}

_log = logging.getLogger(__name__)

ChoiceEvents = tuple[int, Sequence[StreamEvent]]


class AnswerShape(Protocol):
    """One request's answer in the words of its API. `chunk` and `whole` raise ValueError for what cannot be shaped.
    `is_long`: `whole` takes so long that others should not wait for it."""

    @property
    def keep_alive(self) -> bytes: ...
    @property
    def is_long(self) -> bool: ...
    def keep(self, index: int, events: Sequence[StreamEvent]) -> None: ...
    def whole(self) -> dict[str, Any]: ...
    def chunk(self, index: int, events: Sequence[StreamEvent]) -> bytes | None: ...
    def last_events(self) -> list[bytes]: ...
    def error_events(self, error: CompatError) -> list[bytes]: ...


ErrorShape = Callable[[CompatError], tuple[int, dict[str, Any]]]
"""An error in the words of an API: status and body."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`field_names`: the client's names of what agents blame by ours. `choices_per_prompt`: choices are numbered prompt
    by prompt."""

    wanted: GenerationRequest
    shape: AnswerShape
    error_shape: ErrorShape
    is_stream: bool
    field_names: Mapping[str, str]
    choices_per_prompt: int = 1


def error_answer(error: CompatError, shape: ErrorShape, request_id: str) -> web.Response:
    """A whole answer that is an error."""
    status, document = shape(error)
    return json_answer(document, {"X-Request-Id": request_id, **retry_headers(status)}, status)


@dataclass(frozen=True, slots=True)
class CompatRelay:
    """What the routes of the service share."""

    open_group: Callable[[GenerationRequest], OpenGroup]
    item_timeout_seconds: float
    stall_seconds: float = STALL_SECONDS
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS
    books: RequestBooks = QUIET_BOOKS

    async def answer(self, request: web.Request, asked: Asked, account: RequestAccount) -> web.StreamResponse:
        """Cancelled when the client leaves, wherever that finds us (`handler_cancellation` of our listeners)."""
        stream = ChunkedStream(request, stall_seconds=self.stall_seconds)
        account.streams_into(stream.response)
        group = self.open_group(replace(asked.wanted, traceparent=account.traceparent))
        account.admitted(group, choices_per_prompt=asked.choices_per_prompt)
        group.on_abort(stream.abort)  # too slow while we wait for it: its connection's loss cancels us
        try:
            reader = GroupReader(group.streams, account)
            if asked.is_stream:
                return await self._events(stream, reader, asked)
            return await self._whole(reader, asked)
        except ClientGone:
            account.client_left()
        except ClientTooSlow:
            account.failed(FailureKind.SLOW_CONSUMER)
            stream.abort()
        finally:
            group.leave()  # nothing may be awaited here: this runs while we are cancelled
        return stream.response

    async def _whole(self, reader: "GroupReader", asked: Asked) -> web.Response:
        while not reader.is_over:
            arrived = await reader.wait_events()
            error = self._error_in(arrived, asked) or _shaped(partial(_keep_all, asked.shape, arrived), reader.account)
            if error is not None:
                return error_answer(error, asked.error_shape, asked.wanted.request_id)
        if asked.shape.is_long:  # seconds, in which streams and heartbeats must go on
            return await asyncio.to_thread(_whole_answer, asked, reader.account)
        return _whole_answer(asked, reader.account)

    async def _events(self, stream: ChunkedStream, reader: "GroupReader", asked: Asked) -> web.StreamResponse:
        arrived = await reader.wait_events()
        error = self._error_in(arrived, asked)
        if error is not None:
            return error_answer(error, asked.error_shape, asked.wanted.request_id)
        await stream.open({**_STREAM_HEADERS, "X-Request-Id": asked.wanted.request_id})
        while True:
            documents, is_end = self._documents(arrived, reader, asked)
            if documents:
                await stream.send(documents)
            if is_end:
                await stream.finish()
                return stream.response
            arrived = await self._wait_events(stream, reader, asked)

    async def _wait_events(self, stream: ChunkedStream, reader: "GroupReader", asked: Asked) -> list[ChoiceEvents]:
        while True:
            try:
                async with asyncio.timeout(self.keep_alive_seconds):
                    return await reader.wait_events()
            except TimeoutError:
                await stream.send([asked.shape.keep_alive])

    def _documents(
        self, arrived: Sequence[ChoiceEvents], reader: "GroupReader", asked: Asked
    ) -> tuple[list[bytes], bool]:
        """What some events become, and whether it ends the stream."""
        documents: list[bytes] = []

        def shape() -> None:
            documents.extend(one for one in (asked.shape.chunk(*events) for events in arrived) if one is not None)

        error = self._error_in(arrived, asked) or _shaped(shape, reader.account)
        if error is not None:
            return [*documents, *asked.shape.error_events(error)], True
        if reader.is_over:
            return [*documents, *asked.shape.last_events()], True
        return documents, False

    def _error_in(self, arrived: Sequence[ChoiceEvents], asked: Asked) -> CompatError | None:
        """One choice's failure is the whole answer's. Raises ClientTooSlow."""
        for _, events in arrived:
            ended = events[-1]
            if not isinstance(ended, Ended):
                continue
            if ended.failure is not None:
                if ended.failure.kind is FailureKind.SLOW_CONSUMER:
                    raise ClientTooSlow
                blamed = ended.failure.parameter
                named = None if blamed is None else asked.field_names.get(blamed, blamed)
                return error_of_failure(replace(ended.failure, parameter=named), self.item_timeout_seconds)
            if ended.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH):
                return ENDED_SILENTLY
        return None


class GroupReader:
    """All streams of a group, read side by side as `OpenGroup` asks for; each read is told to the account."""

    def __init__(self, streams: Sequence[ResponseStream], account: RequestAccount) -> None:
        self.account = account
        self._open = list(streams)

    @property
    def is_over(self) -> bool:
        """Whether the end of every stream has been read."""
        return not self._open

    async def wait_events(self) -> list[ChoiceEvents]:
        """By choice, whatever there is; waits for the first. Being cancelled here loses nothing."""
        await wait_any(self._open)
        arrived = [(stream.index, stream.take_nowait()) for stream in self._open if stream.has_events]
        for index, events in arrived:
            self.account.read(index, events)
        over = {index for index, events in arrived if isinstance(events[-1], Ended)}
        self._open = [stream for stream in self._open if stream.index not in over]
        return [*arrived]


def _keep_all(shape: AnswerShape, arrived: Sequence[ChoiceEvents]) -> None:
    for index, events in arrived:
        shape.keep(index, events)


def _whole_answer(asked: Asked, account: RequestAccount) -> web.Response:
    answers: list[web.Response] = []

    def shape() -> None:
        answers.append(json_answer(asked.shape.whole(), {"X-Request-Id": asked.wanted.request_id}))

    error = _shaped(shape, account)
    return answers[0] if error is None else error_answer(error, asked.error_shape, asked.wanted.request_id)


def _shaped(shape: Callable[[], object], account: RequestAccount) -> CompatError | None:
    """Run it; a bug of ours or of an agent must not look like an answer that goes on for ever."""
    try:
        shape()
    except Exception:
        _log.exception(
            "request %s: its answer could not be shaped", account.record.request_id, extra=account.log_fields
        )
        account.failed(FailureKind.INTERNAL)
        return error_of_failure(Failure(FailureKind.INTERNAL, ""), 0.0)
    return None
