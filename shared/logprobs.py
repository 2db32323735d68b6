"""Log-probabilities as they travel in a token item: packed, since a prompt of thousands of tokens may have 85 of them
at each place.

A place is three groups: the token itself, the likeliest ones (falling), those that were asked for (in the order asked).
Layout, little-endian: per place `u8` likeliest, `u8` asked, then as many entries and one before them; an entry is
`i32` id, `f32` log-probability (NaN: it has none, as the first token of a prompt), `u8` length and the bytes of its
text, which may be a part of a character.
"""

import math
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_PACKED_BYTES: Final = 256 * 1024
"""Of one item. A prompt's places come in as many items without token ids as they need, before the first token."""

MAX_PIECE_BYTES: Final = 255

_COUNTS: Final = struct.Struct("<BB")
_ENTRY: Final = struct.Struct("<ifB")


class LogprobEntry(NamedTuple):
    """`logprob` None: there is none. `piece`: the token's bytes; empty when nobody asked for text."""

    token_id: int
    logprob: float | None
    piece: bytes = b""


class LogprobPlace(NamedTuple):
    """One token of prompt or answer."""

    token: LogprobEntry
    top: tuple[LogprobEntry, ...] = ()
    asked: tuple[LogprobEntry, ...] = ()


def pack_places(places: Sequence[LogprobPlace]) -> bytes:
    """At most 255 entries a group. Pieces over MAX_PIECE_BYTES are cut."""
    parts: list[bytes] = []
    for place in places:
        parts.append(_COUNTS.pack(len(place.top), len(place.asked)))
        for entry in (place.token, *place.top, *place.asked):
            piece = entry.piece[:MAX_PIECE_BYTES]
            logprob = math.nan if entry.logprob is None else entry.logprob
            parts += (_ENTRY.pack(entry.token_id, logprob, len(piece)), piece)
    return b"".join(parts)


def unpack_places(packed: bytes) -> tuple[LogprobPlace, ...]:
    """Raises ValueError when it is not whole places."""
    places: list[LogprobPlace] = []
    position = 0
    try:
        while position < len(packed):
            top, asked = _COUNTS.unpack_from(packed, position)
            position += _COUNTS.size
            entries: list[LogprobEntry] = []
            for _ in range(1 + top + asked):
                token_id, logprob, length = _ENTRY.unpack_from(packed, position)
                position += _ENTRY.size + length
                if position > len(packed):
                    raise ValueError("log-probabilities that end inside a piece of text")
                piece = packed[position - length : position]
                entries.append(LogprobEntry(token_id, None if math.isnan(logprob) else logprob, piece))
            places.append(LogprobPlace(entries[0], tuple(entries[1 : 1 + top]), tuple(entries[1 + top :])))
    except struct.error:
        raise ValueError("log-probabilities that end early") from None
    return tuple(places)
