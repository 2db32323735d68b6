"""A walk through a compiled structural tag: tokens at random, steered now and then towards strings that matter.

Uniform choices among 49,152 tokens would hardly ever write a trigger; so some of the time the next tokens are those of
a hint, as far as they are allowed.
"""

from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from agent.core.backend import ConstraintMatcher
from tests.support.tokenizer_forms import OpenVocabulary

_FORCED_AT_ONCE = 64


class Walk:
    """`tokens` are those written; `has_ended` tells whether the constraint let them end."""

    def __init__(
        self, matcher: ConstraintMatcher, opened: OpenVocabulary, chance: Random, hints: Sequence[str]
    ) -> None:
        self.tokens: list[int] = []
        self.has_ended = False
        self._matcher = matcher
        self._opened = opened
        self._chance = chance
        self._hints = [self._ids(hint) for hint in hints]
        self._planned: list[int] = []
        self._ends = sorted(opened.vocabulary.end_of_generation_tokens)

    def _ids(self, text: str) -> list[int]:
        return self._opened.vocabulary.tokenize(text, add_special=False, parse_special=True)

    def run(self, enough_tokens: int, most_tokens: int) -> "Walk":
        """After `enough_tokens` it ends wherever it may; after `most_tokens` it gives up."""
        while not self.has_ended and len(self.tokens) < most_tokens:
            self.step(enough_tokens)
        return self

    def step(self, enough_tokens: int) -> None:
        forced = self._matcher.take_forced(_FORCED_AT_ONCE)
        assert not self._matcher.failed
        self.tokens.extend(forced)
        if self._matcher.is_finished:
            self.has_ended = True
            return
        allowed = self.allowed()
        may_end = allowed[self._ends].any()
        is_enough = len(self.tokens) >= enough_tokens or self._chance.random() < 0.02
        allowed[self._ends] = False
        if may_end and (is_enough or not allowed.any()):
            self.has_ended = True
            return
        self.write(self._next(allowed))

    def write(self, token: int) -> None:
        """Raises AssertionError where it may not follow."""
        assert self._matcher.accept(token), (token, self.text)
        self.tokens.append(token)

    def allowed(self) -> NDArray[np.bool_]:
        """For each token whether it may follow."""
        row = np.zeros(self._opened.vocabulary.size, dtype=np.float32)
        assert self._matcher.mask(row)
        return np.isfinite(row)

    @property
    def may_end(self) -> bool:
        return bool(self.allowed()[self._ends].any())

    def _next(self, allowed: NDArray[np.bool_]) -> int:
        if not self._planned and self._hints and self._chance.random() < 0.5:
            self._planned = list(self._chance.choice(self._hints))
        if self._planned:
            token = self._planned.pop(0)
            if allowed[token]:
                return token
            self._planned = []
        return int(self._chance.choice(np.flatnonzero(allowed)))

    @property
    def text(self) -> str:
        """Control tokens as the vocabulary spells them."""
        vocabulary = self._opened.vocabulary
        pieces = [vocabulary.token_piece(t) or vocabulary.token_text(t).encode() for t in self.tokens]
        return b"".join(pieces).decode("utf-8", errors="replace")
