"""What waits to be written to one link. Bounded; when the link lags, token frames become fewer and longer.

Frames are merged by putting their items one after another: tokens are never merged, so the balancer sees the same
items as without the lag. Order is kept between an `Accepted` and the tokens that follow it.
"""

from collections import deque

from shared.messages_from_agent import MessageFromAgent, ModelMetadata, StatusUpdate, TokenFrame

MAX_PENDING_BYTES = 16 * 1024 * 1024
MAX_FRAME_ITEMS = 4096  # per merged frame; far below what the codec allows
MAX_FRAME_BYTES = 512 * 1024

_CONTROL_BYTES = 512
_ITEM_BYTES = 24
_TOKEN_BYTES = 5
_CHARACTER_BYTES = 4
_END_BYTES = 128


class OutgoingQueue:
    """Messages in the order in which they have to leave, estimated in bytes of their encoded form."""

    def __init__(self) -> None:
        self._messages: deque[tuple[MessageFromAgent, int]] = deque()
        self._status: StatusUpdate | None = None
        self._pending_bytes = 0

    def __repr__(self) -> str:
        return f"<OutgoingQueue {len(self._messages)} messages, {self._pending_bytes} bytes>"

    @property
    def is_over_bound(self) -> bool:
        """Whether more waits than a link that is only slow would leave behind."""
        return self._pending_bytes > MAX_PENDING_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._messages and self._status is None

    def put(self, message: MessageFromAgent) -> None:
        """Add a message. A status replaces one that still waits: each is a whole snapshot."""
        if isinstance(message, StatusUpdate):
            self._status = message
            return
        size = _estimated_bytes(message)
        self._messages.append((message, size))
        self._pending_bytes += size

    def take(self) -> MessageFromAgent | None:
        """The next message to write, neighbouring token frames merged; None when nothing waits."""
        if self._status is not None:
            status, self._status = self._status, None
            return status
        if not self._messages:
            return None
        message, size = self._pop()
        if not isinstance(message, TokenFrame):
            return message
        items, ends = list(message.items), list(message.ends)
        while self._messages:
            following, following_size = self._messages[0]
            if not isinstance(following, TokenFrame) or size + following_size > MAX_FRAME_BYTES:
                break
            if len(items) + len(ends) + len(following.items) + len(following.ends) > MAX_FRAME_ITEMS:
                break
            self._pop()
            size += following_size
            items += following.items
            ends += following.ends
        return TokenFrame(tuple(items), tuple(ends))

    def _pop(self) -> tuple[MessageFromAgent, int]:
        message, size = self._messages.popleft()
        self._pending_bytes -= size
        return message, size


def _estimated_bytes(message: MessageFromAgent) -> int:
    if isinstance(message, TokenFrame):
        tokens = sum(len(item.token_ids) for item in message.items)
        characters = sum(len(item.text) for item in message.items)
        characters += sum(len(end.matched_stop) for end in message.ends if isinstance(end.matched_stop, str))
        packed = sum(len(item.logprobs) for item in message.items if item.logprobs is not None)
        fixed = _ITEM_BYTES * len(message.items) + _END_BYTES * len(message.ends)
        return fixed + packed + _TOKEN_BYTES * tokens + _CHARACTER_BYTES * characters
    if isinstance(message, ModelMetadata) and message.metadata is not None:
        return _CONTROL_BYTES + sum(len(key) + len(value) for key, value in message.metadata.items())
    return _CONTROL_BYTES
