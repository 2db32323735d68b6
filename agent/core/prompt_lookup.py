"""Guesses of the tokens that follow, for one answer: what followed the last time that the same tokens stood there.

Prompt lookup, or n-gram drafting: answers quote their prompt, and lists repeat the form of their entries. No second
model is needed; one that guesses badly costs a row of a decode now and then.
"""

from collections.abc import Sequence

KEY_TOKENS = 3
"""How many tokens must be the same. Two are found more often and are wrong more often."""

REMEMBERED_TOKENS = 2048
"""How far back it looks: as many places cost some 400 kB, and half a millisecond to read for the first time."""

LONGEST_REST = 32
"""Most steps without a guess, after several that were all wrong."""

_FIRST_LENGTH = 2


class PromptLookup:
    """Reads a list of tokens that only grows. Guesses get longer while they are right; after one that was all wrong
    there is a rest, twice as long each time."""

    __slots__ = ("_after", "_length", "_misses", "_read", "_rest")

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], int] = {}  # where the tokens after these ones stand
        self._read = 0  # tokens before it are in `_after` as far as they go on
        self._length = _FIRST_LENGTH
        self._misses = 0
        self._rest = 0

    def guess(self, tokens: list[int], most: int) -> Sequence[int]:
        """What may follow `tokens`, at most `most` of them; often nothing. Once a step."""
        self._remember(tokens)
        if self._rest > 0:
            self._rest -= 1
            return ()
        start = self._after.get(tuple(tokens[-KEY_TOKENS:]))
        if start is None:
            return ()
        period = len(tokens) - start  # what repeats itself so often is guessed to go on so
        return [tokens[start + place % period] for place in range(min(self._length, most))]

    def judge(self, guessed: int, right: int) -> None:
        """Of a guess of `guessed` tokens the first `right` came true."""
        if right:
            self._misses = 0
            self._length = 2 * guessed if right == guessed else right
            return
        self._length = 1
        self._rest = min(2**self._misses, LONGEST_REST)
        self._misses += 1

    def _remember(self, tokens: list[int]) -> None:
        known = len(tokens)
        for after in range(max(self._read, known - REMEMBERED_TOKENS, KEY_TOKENS), known):
            key = tuple(tokens[after - KEY_TOKENS : after])
            self._after.pop(key, None)  # the newest is forgotten last
            self._after[key] = after
        self._read = max(known, KEY_TOKENS)
        while len(self._after) > REMEMBERED_TOKENS:
            del self._after[next(iter(self._after))]
