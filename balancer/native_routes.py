"""The inference service's routes of Paddler's wire: read the body, open a group, relay its stream line by line."""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from balancer.chunked_stream import STALL_SECONDS, ChunkedStream, ClientGone, ClientTooSlow
from balancer.generation_request import GenerationRequest
from balancer.http_failures import GENERATION_DISABLED_TEXT, row_of
from balancer.native_dialect import RAW_PROMPT_ENDPOINT, NativeLines, RawPromptBody
from balancer.open_group import OpenGroup
from balancer.request_account import QUIET_BOOKS, RequestAccount, RequestBooks
from balancer.request_body import BodyLimits, BodyRefused, read_body
from balancer.request_record import Endpoint
from balancer.response_stream import Ended, ResponseStream, StreamEvent, Tokens
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason, Usage
from shared.identifiers import new_identifier

RAW_PROMPT_PATH: Final = f"/api/v1/{RAW_PROMPT_ENDPOINT}"

# `X-Accel-Buffering: no` asks nginx to pass each line on at once.
_STREAM_HEADERS: Final = {
    "Content-Type": "application/json",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NativeRoutes:
    """`is_generation_disabled`: the applicable state is one for embeddings."""

    open_group: Callable[[GenerationRequest], OpenGroup]
    is_generation_disabled: Callable[[], bool]
    body_limits: BodyLimits
    item_timeout_seconds: float
    stall_seconds: float = STALL_SECONDS
    books: RequestBooks = QUIET_BOOKS

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_post(RAW_PROMPT_PATH, self.continue_from_raw_prompt)

    async def continue_from_raw_prompt(self, request: web.Request) -> web.StreamResponse:
        """Cancelled when the client leaves, wherever that finds us (`handler_cancellation` of our listeners)."""
        with self.books.open(Endpoint.RAW_PROMPT, new_identifier(), request) as account:
            return account.answered(await self._answered(request, account))

    async def _answered(self, request: web.Request, account: RequestAccount) -> web.StreamResponse:
        request_id = account.record.request_id
        try:
            body = await read_body(request, RawPromptBody, self.body_limits)
        except BodyRefused as refused:
            return _text(refused.status, refused.native_text, request_id)
        # Paddler's order: a bad body is 400 even when the mode says 501.
        if self.is_generation_disabled():
            account.failed(FailureKind.GENERATION_DISABLED)
            return _text(row_of(FailureKind.GENERATION_DISABLED).status, GENERATION_DISABLED_TEXT, request_id)
        stream = ChunkedStream(request, stall_seconds=self.stall_seconds)
        account.streams_into(stream.response)
        lines = NativeLines(request_id, self.item_timeout_seconds)
        try:
            await self._answer(body, account, lines, stream)
        except ClientGone:
            account.client_left()
        except ClientTooSlow:
            account.failed(FailureKind.SLOW_CONSUMER)
            stream.abort()
        return stream.response

    async def _answer(
        self, body: RawPromptBody, account: RequestAccount, lines: NativeLines, stream: ChunkedStream
    ) -> None:
        request_id = account.record.request_id
        account.record.is_stream = True
        wanted = body.to_generation_request(request_id, secrets.randbits(64))
        if isinstance(wanted, Failure):
            account.failed(wanted.kind)
            await _answer_at_once(lines.failure(None, wanted), stream, request_id)
        elif wanted.max_tokens == 0:  # nothing is read either, so every counter is 0 and nobody generated it
            await _answer_at_once(lines.done(None, FinishReason.LENGTH, Usage()), stream, request_id)
        else:
            await self._answer_from_a_group(wanted, account, lines, stream)

    async def _answer_from_a_group(
        self, wanted: GenerationRequest, account: RequestAccount, lines: NativeLines, stream: ChunkedStream
    ) -> None:
        group = self.open_group(replace(wanted, traceparent=account.traceparent))
        account.admitted(group)
        group.on_abort(stream.abort)  # too slow while we wait for it: its connection's loss cancels us
        try:
            await stream.open(_headers(wanted.request_id))
            await _relay(group.streams[0], lines, stream, account)
            await stream.finish()
        finally:
            group.leave()  # nothing may be awaited here: this runs while we are cancelled


async def _answer_at_once(line: bytes, stream: ChunkedStream, request_id: str) -> None:
    """The only line of an answer that needs no agent."""
    await stream.open(_headers(request_id))
    await stream.send([line])
    await stream.finish()


async def _relay(events: ResponseStream, lines: NativeLines, stream: ChunkedStream, account: RequestAccount) -> None:
    """Everything of one member, until its end has been written. Raises ClientGone and ClientTooSlow."""
    while True:
        arrived = await events.wait_events()
        account.read(events.index, arrived)
        try:
            documents, is_end = documents_of(arrived, lines)
        except ClientTooSlow:
            raise
        except Exception:  # a bug of ours must not look like an answer that goes on for ever
            _log.exception(
                "request %s: its stream could not be shaped", account.record.request_id, extra=account.log_fields
            )
            account.failed(FailureKind.INTERNAL)
            documents, is_end = [lines.failure(None, Failure(FailureKind.INTERNAL, ""))], True
        if documents:
            await stream.send(documents)
        if is_end:
            return


def documents_of(arrived: Sequence[StreamEvent], lines: NativeLines) -> tuple[list[bytes], bool]:
    """The lines of some events in their order, and whether the last one was among them. Raises ClientTooSlow."""
    documents: list[bytes] = []
    for event in arrived:
        if isinstance(event, Tokens):
            if event.item.text:
                documents.append(lines.token(event.agent_name, event.item.channel, event.item.text))
        elif isinstance(event, Ended):
            if event.failure is not None and event.failure.kind is FailureKind.SLOW_CONSUMER:
                raise ClientTooSlow
            documents.append(
                lines.end(event.agent_name, event.finish_reason, event.usage, event.failure, event.matched_stop)
            )
            return documents, True
    return documents, False


def _headers(request_id: str) -> dict[str, str]:
    return {**_STREAM_HEADERS, "X-Request-Id": request_id}


def _text(status: int, text: str, request_id: str) -> web.Response:
    return web.Response(status=status, text=text, headers={"X-Request-Id": request_id})
