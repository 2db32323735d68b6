"""Bit masks of allowed tokens, and how a row of logits is cut to one: 0.1 ms for 262,144.

Where most tokens are allowed, as in a JSON string, it takes a third less, and where few are a quarter.
"""

import threading
from collections.abc import Collection
from random import Random

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.int32]
"""One bit per token, lowest bit first; bits past the vocabulary are without meaning."""

_BYTES_AT_A_TIME = 8192  # their bounds are 256 KiB, which stay in the cache of one core
_FEW_USED_WORDS = 1 / 20
_FEW_FORBIDDING_BYTES = 1 / 12
_NEVER = np.float32(-np.inf)
_BOUNDS = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little") == 1, np.inf, -np.inf
).astype(np.float32)
"""For each byte of a mask the highest values that its eight logits may have: no bound, or -inf."""


def new_bits(vocabulary_size: int) -> Bits:
    """A mask for so many tokens that allows none."""
    return np.zeros((vocabulary_size + 31) // 32, dtype=np.int32)


def allow(bits: Bits, token: int) -> None:
    """Set the token's bit, in place."""
    bits.view(np.uint32)[token // 32] |= np.uint32(1 << token % 32)


def allows(bits: Bits, token: int) -> bool:
    """Whether the token's bit is set."""
    return bool(bits.view(np.uint32)[token // 32] >> np.uint32(token % 32) & np.uint32(1))


def forbid(bits: Bits, token: int) -> None:
    """Clear the token's bit, in place."""
    bits.view(np.uint32)[token // 32] &= np.uint32(~(1 << token % 32) & 0xFFFFFFFF)


def allowed_tokens(bits: Bits, vocabulary_size: int) -> NDArray[np.intp]:
    """The ids that `bits` allows, ascending."""
    words = np.flatnonzero(bits)
    row, bit = np.nonzero(np.unpackbits(bits[words].view(np.uint8), bitorder="little").reshape(-1, 32))
    tokens = words[row] * 32 + bit
    return tokens[tokens < vocabulary_size]


def allows_any(bits: Bits, vocabulary_size: int) -> bool:
    """Whether `bits` allows a token at all."""
    whole, rest = divmod(vocabulary_size, 32)
    return bool(bits[:whole].any() or (rest and int(bits[whole]) & ((1 << rest) - 1)))


def drawn_token(bits: Bits, vocabulary_size: int, without: Collection[int], chance: Random) -> int | None:
    """One of the ids that `bits` allows and `without` does not hold; None when there is none.

    Drawn in two steps, first 32 neighbours and then one of them: to list 250,000 ids takes 30 ms.
    """
    words = np.flatnonzero(bits)
    first = chance.randrange(max(1, len(words)))
    for offset in range(len(words)):
        word = int(words[(first + offset) % len(words)])
        bit_set = int(bits[word])
        ids = (32 * word + bit for bit in range(32) if bit_set >> bit & 1)
        tokens = [token for token in ids if token < vocabulary_size and token not in without]
        if tokens:
            return chance.choice(tokens)
    return None


class MaskWriter:
    """Writes masks into rows of logits. Usable from any thread; each gets scratch memory of its own."""

    def __init__(self, vocabulary_size: int) -> None:
        self._size = vocabulary_size
        self._scratch = threading.local()

    def apply(self, logits: NDArray[np.float32], bits: Bits) -> None:
        """Make -inf, in place, the logit of every token that `bits` does not allow; the others keep their bits.

        `logits` is writable float32 of shape (n,); n may differ from the vocabulary's size. What lies past the
        vocabulary is not allowed. A NaN stays NaN.
        """
        logits[self._size :] = -np.inf
        size = min(self._size, logits.shape[0])
        whole = size // 32
        words = bits[:whole]
        rows = logits[: whole * 32]
        used = np.count_nonzero(words)
        forbidding = words.view(np.uint8) != 255 if used * 8 >= whole * 7 else None
        if used <= whole * _FEW_USED_WORDS:
            _keep_only(rows, words)
        elif forbidding is not None and np.count_nonzero(forbidding) <= len(forbidding) * _FEW_FORBIDDING_BYTES:
            _cut(rows, words.view(np.uint8), np.flatnonzero(forbidding))
        else:
            self._cut_everywhere(rows, words.view(np.uint8))
        if size % 32:
            rest = logits[whole * 32 : size]
            bounds = _BOUNDS[bits[whole : whole + 1].view(np.uint8)].reshape(-1)
            np.minimum(rest, bounds[: size % 32], out=rest)

    def _cut_everywhere(self, rows: NDArray[np.float32], mask: NDArray[np.uint8]) -> None:
        bounds = self._bounds()
        by_byte = rows.reshape(-1, 8)
        for start in range(0, len(mask), _BYTES_AT_A_TIME):
            part = by_byte[start : start + _BYTES_AT_A_TIME]
            own = bounds[: len(part)]
            np.take(_BOUNDS, mask[start : start + len(part)], axis=0, out=own, mode="clip")
            np.minimum(part, own, out=part)

    def _bounds(self) -> NDArray[np.float32]:
        bounds: NDArray[np.float32] | None = getattr(self._scratch, "bounds", None)
        if bounds is None:
            bounds = self._scratch.bounds = np.empty((_BYTES_AT_A_TIME, 8), dtype=np.float32)
        return bounds


def _keep_only(rows: NDArray[np.float32], words: Bits) -> None:
    """Where few words allow anything: what these allow is put aside, and back after everything was cut."""
    by_word = rows.reshape(-1, 32)
    places = np.flatnonzero(words)
    kept = by_word.take(places, axis=0)
    np.minimum(kept, _BOUNDS.take(words.take(places).view(np.uint8), axis=0).reshape(-1, 32), out=kept)
    np.minimum(rows, _NEVER, out=rows)
    by_word[places] = kept


def _cut(rows: NDArray[np.float32], mask: NDArray[np.uint8], places: NDArray[np.intp]) -> None:
    """Where few bytes forbid anything: these alone."""
    by_byte = rows.reshape(-1, 8)
    part = by_byte.take(places, axis=0)
    np.minimum(part, _BOUNDS.take(mask.take(places), axis=0), out=part)
    by_byte[places] = part
