"""Log-probabilities in the two shapes that clients of completions read: OpenAI's object, SGLang's six lists. Pure."""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from typing import Any, Final

from shared.logprobs import LogprobEntry, LogprobPlace

Json = dict[str, Any]

_LEAST: Final = -9999.0  # JSON has no -inf
_utf8_decoder = getincrementaldecoder("utf-8")


class OpenAiLogprobs:
    """OpenAI's object, piece by piece: each call of `shape` tells of some further tokens."""

    def __init__(self, top_count: int) -> None:
        self._top_count = top_count
        self._decoder = _utf8_decoder(errors="replace")
        self._characters = 0

    def skip(self, characters: int) -> None:
        """Of text whose tokens are not told of."""
        self._characters += characters

    def shape(self, places: Sequence[LogprobPlace]) -> Json:
        """`text_offset`: characters of the choice's text before the token."""
        offsets = []
        for place in places:
            offsets.append(self._characters)
            self._characters += len(self._decoder.decode(place.token.piece))
        return {
            "text_offset": offsets,
            "token_logprobs": [_number(place.token) for place in places],
            "tokens": [_text(place.token) for place in places],
            "top_logprobs": [self._top(place) for place in places] if self._top_count else [],
        }

    def _top(self, place: LogprobPlace) -> Json | None:
        if place.token.logprob is None:
            return None
        top: Json = {}
        for entry in place.top[: self._top_count]:
            top.setdefault(_text(entry), _number(entry))  # of two tokens with one text the likelier
        return top


def meta_info(
    prompt: Sequence[LogprobPlace], answer: Sequence[LogprobPlace], *, top_count: int, with_text: bool
) -> Json:
    """SGLang's six lists: of the prompt's tokens from the start that was asked for, and of the answer's."""

    def triple(entry: LogprobEntry) -> list[Any]:
        number = None if entry.logprob is None else _number(entry)
        return [number, entry.token_id, _text(entry) if with_text else None]

    def groups(places: Sequence[LogprobPlace], name: str, most: int | None) -> list[Any]:
        found = []
        for place in places:
            entries: tuple[LogprobEntry, ...] = getattr(place, name)[:most]
            found.append([triple(entry) for entry in entries] if place.token.logprob is not None else None)
        return found

    return {
        "input_token_logprobs": [triple(place.token) for place in prompt],
        "output_token_logprobs": [triple(place.token) for place in answer],
        "input_top_logprobs": groups(prompt, "top", top_count),
        "output_top_logprobs": groups(answer, "top", top_count),
        "input_token_ids_logprobs": groups(prompt, "asked", None),
        "output_token_ids_logprobs": groups(answer, "asked", None),
    }


def _number(entry: LogprobEntry) -> float | None:
    return None if entry.logprob is None else max(entry.logprob, _LEAST)


def _text(entry: LogprobEntry) -> str:
    """Of a piece that is only a part of a character: one character per byte."""
    try:
        return entry.piece.decode()
    except UnicodeDecodeError:
        return entry.piece.decode("latin-1")
