"""What `/v1/complete` answers, in each of its habits: the seed's, and the two versions of Anthropic's API. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from balancer.compat_errors import (
    CompatError,
    anthropic_error,
    anthropic_status,
    xai_error,
)
from balancer.native_dialect import one_line_json
from balancer.response_stream import Ended, StreamEvent, Tokens
from shared.generation import FinishReason

Json = dict[str, Any]

DONE: Final = b"data: [DONE]\n\n"


def data_only(document: Json) -> bytes:
    """An event without a name."""
    return b"data: %b\n\n" % one_line_json(document)


def named(document: Json) -> bytes:
    """An event that has its document's type as its name."""
    return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), one_line_json(document))


def _xai(error: CompatError) -> tuple[int, Json]:
    return error.status, xai_error(error)


def _anthropic(error: CompatError) -> tuple[int, Json]:
    return anthropic_status(error), anthropic_error(error)


@dataclass(frozen=True, slots=True)
class Habits:
    """How one family of clients wants to be answered.

    `is_cumulative`: each event holds the whole text so far. `ends_apart`: the reason comes in an event without text.
    `has_mistyped_422`: missing and mistyped fields have a status of their own.
    """

    length_word: str
    event: Callable[[Json], bytes]
    error: Callable[[CompatError], tuple[int, Json]]
    keep_alive: bytes
    end: tuple[bytes, ...]
    is_cumulative: bool = False
    ends_apart: bool = False
    has_mistyped_422: bool = False


SEED: Final = Habits("length", data_only, _xai, b": still here\n\n", (DONE,), has_mistyped_422=True)
VERSIONS: Final = {
    "2023-06-01": Habits("max_tokens", named, _anthropic, named({"type": "ping"}), (), ends_apart=True),
    "2023-01-01": Habits("max_tokens", data_only, _anthropic, b": still here\n\n", (DONE,), is_cumulative=True),
}
"""By the header `anthropic-version`."""

NEWEST: Final = VERSIONS["2023-06-01"]


def habits_of(version: str | None) -> Habits | None:
    """Of a request's `anthropic-version`; None for a version that nobody knows."""
    return SEED if version is None else VERSIONS.get(version)


class CompleteAnswers:
    """The answer to one request; its group has one member."""

    def __init__(self, habits: Habits, model: str, answer_id: str) -> None:
        self._habits = habits
        self._model = model
        self._answer_id = answer_id
        self._texts: list[str] = []
        self._ended: Ended | None = None
        self.keep_alive: Final = habits.keep_alive
        self.is_long: Final = False

    def keep(self, index: int, events: Sequence[StreamEvent]) -> None:
        """For a whole answer."""
        self._take(events)

    def whole(self) -> Json:
        """The whole answer, once it has ended well."""
        return self._document("".join(self._texts), self._reason())

    def chunk(self, index: int, events: Sequence[StreamEvent]) -> bytes | None:
        """One event of the stream, or two at the end; None when nothing can be seen."""
        text = self._take(events)
        if self._ended is None and not text:
            return None
        shown = "".join(self._texts) if self._habits.is_cumulative else text
        event = self._habits.event
        if self._ended is None:
            return event(self._document(shown, None))
        if not self._habits.ends_apart:
            return event(self._document(shown, self._reason()))
        last = event(self._document("", self._reason()))
        return event(self._document(shown, None)) + last if shown else last

    def last_events(self) -> list[bytes]:
        """What comes after the last of the answer."""
        return list(self._habits.end)

    def error_events(self, error: CompatError) -> list[bytes]:
        """What ends a stream that failed: one object, and no `[DONE]`."""
        return [self._habits.event(self._habits.error(error)[1])]

    def _take(self, events: Sequence[StreamEvent]) -> str:
        texts = [event.item.text for event in events if isinstance(event, Tokens)]
        self._texts += texts
        if events and isinstance(events[-1], Ended):
            self._ended = events[-1]
        return "".join(texts)

    def _reason(self) -> str | None:
        """A stop of the user and the model's own end have one word."""
        if self._ended is None:
            return None
        return self._habits.length_word if self._ended.finish_reason is FinishReason.LENGTH else "stop_sequence"

    def _document(self, text: str, reason: str | None) -> Json:
        return {
            "type": "completion",
            "id": self._answer_id,
            "completion": text,
            "model": self._model,
            "stop_reason": reason,
        }
