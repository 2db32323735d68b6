"""What a handler holds while its request is open."""

from collections.abc import Callable

from balancer.generation_request import GenerationRequest
from balancer.response_stream import ResponseStream
from shared.identifiers import GroupId


class OpenGroup:
    """One request and the streams of its members. The handler calls `leave` in its `finally`, whatever happened.

    All streams of a group are to be read side by side: one that is left unread for long counts as a slow consumer.
    """

    __slots__ = ("_abort", "_on_leave", "group", "has_left", "is_aborted", "request", "streams")

    def __init__(
        self,
        group: GroupId,
        request: GenerationRequest,
        streams: tuple[ResponseStream, ...],
        on_leave: Callable[["OpenGroup"], None],
    ) -> None:
        self.group = group
        self.request = request
        self.streams = streams
        self.has_left = False
        self.is_aborted = False
        self._on_leave = on_leave
        self._abort: Callable[[], None] | None = None

    @property
    def request_id(self) -> str:
        """The name under which the client knows the request."""
        return self.request.request_id

    @property
    def is_ended(self) -> bool:
        """Whether the last event of every stream has been put."""
        return all(stream.is_ended for stream in self.streams)

    def on_abort(self, abort: Callable[[], None]) -> None:
        """What to call, once, when the client is too slow: drop its connection at once. A handler that is stuck in
        a write learns of it in no other way."""
        self._abort = abort

    def abort(self) -> None:
        """The client is too slow; idempotent."""
        if not self.is_aborted:
            self.is_aborted = True
            if self._abort is not None and not self.has_left:
                self._abort()

    def leave(self) -> None:
        """The handler is done; synchronous and idempotent. What still runs for it is cancelled."""
        if not self.has_left:
            self.has_left = True
            self._on_leave(self)
            for stream in self.streams:
                stream.close()
