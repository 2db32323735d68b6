"""llguidance's matcher without llguidance: it allows what a list says, place by place, and errs where it is told to."""

import ctypes
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

END = 0


@dataclass
class ScriptedForm:
    """As much of a tokenizer form as the matcher asks for. `special` are control tokens by their spelling."""

    vocab_size: int
    special: dict[str, int] = field(default_factory=dict)

    def is_special_token(self, token: int) -> bool:
        return token in self.special.values()

    def tokenize_str(self, text: str, *, parse_special: bool = False) -> list[int]:
        known = self.special.get(text) if parse_special else None
        return [self.vocab_size - 1] * len(text) if known is None else [known]


@dataclass
class ScriptedLLMatcher:
    """`places[i]` are the ids that may come i-th; after the last place only the end. END among them: it may end there.

    From token `breaks_at` on it is in error, and then, as the real one, its mask allows the end alone. `calls` counts
    by name.
    """

    places: Sequence[Collection[int]]
    breaks_at: int | None = None
    vocab_size: int = 8
    position: int = 0
    error: bool = False
    calls: dict[str, int] = field(default_factory=dict)

    def deep_copy(self) -> Any:
        return ScriptedLLMatcher(self.places, self.breaks_at, self.vocab_size, self.position, self.error)

    def unsafe_compute_mask_ptr(self, pointer: int, size: int) -> None:
        self._called("mask")
        bits = np.zeros((self.vocab_size + 31) // 32, dtype=np.uint32)
        assert size == bits.nbytes, f"a mask of {size} bytes for {self.vocab_size} tokens"
        for token in {END} if self.error else self._allowed():
            bits[token // 32] |= np.uint32(1 << token % 32)
        ctypes.memmove(pointer, bits.ctypes.data, size)

    def consume_token(self, token: int) -> bool:
        return self.consume_tokens([token])

    def consume_tokens(self, tokens: Sequence[int]) -> bool:
        self._called("consume")
        for token in tokens:
            self.error = self.error or token not in self._allowed()
            self.position += token != END
        return not self.error

    def validate_tokens(self, tokens: Sequence[int]) -> int:
        self._called("validate")
        assert len(tokens) == 1
        return int(not self.error and tokens[0] in self._allowed())

    def compute_ff_tokens(self) -> list[int]:
        self._called("forced")
        forced: list[int] = []
        for place in self.places[self.position :]:
            if len(place) != 1:
                break
            forced.extend(place)
        return forced

    def is_error(self) -> bool:
        return self.error

    def is_accepting(self) -> bool:
        return self.error or END in self._allowed()

    def is_stopped(self) -> bool:
        return self.error or self.position >= len(self.places)

    def _called(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1
        if self.breaks_at is not None and self.position >= self.breaks_at:
            self.error = True

    def _allowed(self) -> Collection[int]:
        return self.places[self.position] if self.position < len(self.places) else {END}
