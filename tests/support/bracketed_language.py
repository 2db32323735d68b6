"""Rules with options over finite languages of tokens, and an oracle that knows every way to read them.

A sentence is written with brackets: `Begin(n)` where an occurrence of rule n begins and `END` where it ends. All
sentences of a language are listed, so what may follow, what must end and how warm it is can be looked up, without
matchers, copies or closures.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from agent.constraint.tree import RuleOptions

STOP = 0
FIRST_ENTRY = 90


class Begin(NamedTuple):
    """An occurrence of the rule begins."""

    rule: int


END = "end"
Sentence = tuple[int | Begin | str, ...]


@dataclass(frozen=True, slots=True)
class TokenRule:
    """`language`: not empty sequences of tokens; FIRST_ENTRY + n stands for rule n, which has a higher number."""

    language: tuple[tuple[int, ...], ...]
    options: RuleOptions


@dataclass
class LanguageMatcher:
    """llguidance's matcher over a finite language. It calls itself stopped where nothing can follow."""

    language: Sequence[tuple[int, ...]]
    vocab_size: int
    taken: tuple[int, ...] = ()
    error: bool = False

    def deep_copy(self) -> Any:
        return LanguageMatcher(self.language, self.vocab_size, self.taken, self.error)

    def validate_tokens(self, tokens: list[int]) -> int:
        assert len(tokens) == 1
        return int(tokens[0] in self._next())

    def consume_token(self, token: int) -> bool:
        self.error = self.error or token not in self._next()
        self.taken += (token,)
        return not self.error

    def compute_ff_tokens(self) -> list[int]:
        ahead = self.deep_copy()
        forced: list[int] = []
        while not ahead.is_accepting() and len(following := ahead._next()) == 1:
            forced += following
            ahead.consume_token(forced[-1])
        return forced

    def unsafe_compute_mask_ptr(self, pointer: int, size: int) -> None:
        assert not self.is_stopped(), "the library ends in error here"
        bits = np.zeros((self.vocab_size + 31) // 32, dtype=np.uint32)
        for token in self._next() | ({STOP} if self.is_accepting() else set()):
            bits[token // 32] |= np.uint32(1 << token % 32)
        ctypes.memmove(pointer, bits.ctypes.data, size)

    def is_error(self) -> bool:
        return self.error

    def is_accepting(self) -> bool:
        return self.taken in self.language

    def is_stopped(self) -> bool:
        return not self._next()

    def _next(self) -> set[int]:
        place = len(self.taken)
        return {text[place] for text in self.language if len(text) > place and text[:place] == self.taken}


@dataclass
class ScriptedPart:
    """Implements `Part`."""

    rule: TokenRule
    vocab_size: int
    entries: "list[tuple[int, ScriptedPart]]" = field(default_factory=list)

    @property
    def options(self) -> RuleOptions:
        return self.rule.options

    def begin(self) -> LanguageMatcher:
        return LanguageMatcher(self.rule.language, self.vocab_size)


def parts_of(rules: Sequence[TokenRule], vocab_size: int) -> ScriptedPart:
    """The part of rule 0."""
    parts = [ScriptedPart(rule, vocab_size) for rule in rules]
    for part in parts:
        named = {token - FIRST_ENTRY for text in part.rule.language for token in text if token >= FIRST_ENTRY}
        part.entries = [(FIRST_ENTRY + number, parts[number]) for number in sorted(named)]
    return parts[0]


class Following(NamedTuple):
    """What may come next: tokens, whether the answer is whole, and the temperature for what comes."""

    tokens: frozenset[int]
    may_end: bool
    temperature: float | None


@dataclass
class BracketOracle:
    """`after`: what may follow the tokens, each of which this oracle named before."""

    rules: Sequence[TokenRule]

    @cached_property
    def sentences(self) -> list[Sentence]:
        """All of rule 0."""
        return [(Begin(0), *inner, END) for inner in self._sentences_of(0)]

    def after(self, tokens: Sequence[int]) -> Following:
        alive = self.sentences
        for count, token in enumerate(tokens):
            going_on = self._going_on(alive, count)
            alive = [sentence for sentence in going_on if _at(sentence, count) == token]
        going_on = self._going_on(alive, len(tokens))
        warmth = [self._temperature(sentence, len(tokens)) for sentence in going_on]
        return Following(
            frozenset(_at(sentence, len(tokens)) for sentence in going_on),
            any(_at(sentence, len(tokens)) == STOP for sentence in alive),
            max((one for one in warmth if one is not None), default=None),
        )

    # Private

    def _sentences_of(self, number: int) -> list[Sentence]:
        found: list[Sentence] = []
        for text in self.rules[number].language:
            choices = [
                [(token,)]
                if token < FIRST_ENTRY
                else [(Begin(token - FIRST_ENTRY), *inner, END) for inner in self._sentences_of(token - FIRST_ENTRY)]
                for token in text
            ]
            found += [tuple(piece for part in parts for piece in part) for parts in product(*choices)]
        return found

    def _going_on(self, alive: Sequence[Sentence], count: int) -> list[Sentence]:
        """Those with a token after the first `count`, in which no rule goes on that had to end before it."""
        longer = [sentence for sentence in alive if _at(sentence, count) != STOP]
        return [sentence for sentence in longer if not self._must_have_ended(sentence, alive, count)]

    def _must_have_ended(self, sentence: Sentence, alive: Sequence[Sentence], count: int) -> bool:
        """Whether a rule is open that has had all its tokens, and that ends here in another reading of the text."""
        for place, began, number in _open_at(sentence, count):
            most = self.rules[number].options.max_tokens
            if most is None or count - began < most:
                continue
            others = (one for one in alive if one[: place + 1] == sentence[: place + 1])
            if any(_is_open(other, place, count - 1) and not _is_open(other, place, count) for other in others):
                return True
        return False

    def _temperature(self, sentence: Sentence, count: int) -> float | None:
        """Of the innermost rule that has one."""
        warmth = [self.rules[number].options.temperature for _, _, number in _open_at(sentence, count)]
        return next((one for one in reversed(warmth) if one is not None), None)


def _at(sentence: Sentence, count: int) -> int:
    """The token after `count` tokens, of which there are so many; STOP where none is left."""
    tokens = [piece for piece in sentence if type(piece) is int]
    return tokens[count] if count < len(tokens) else STOP


def _open_at(sentence: Sentence, count: int) -> list[tuple[int, int, int]]:
    """Of the rules that are open when the token after `count` tokens comes: place, tokens before it, number."""
    found: list[tuple[int, int, int]] = []
    seen = 0
    for place, piece in enumerate(sentence):
        if isinstance(piece, Begin):
            found.append((place, seen, piece.rule))
        elif piece == END:
            found.pop()
        else:
            if seen == count:
                return found
            seen += 1
    return []


def _is_open(sentence: Sentence, place: int, count: int) -> bool:
    return any(place == where for where, _, _ in _open_at(sentence, count))
