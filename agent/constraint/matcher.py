"""One request's walk through a compiled constraint: the engine's `ConstraintMatcher` over llguidance's matcher.

llguidance never raises. After an error its mask allows exactly the end-of-generation tokens, so whoever does not ask
`is_error` sends half an output as a finished one: here it is asked after each call, and an error is final.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

from agent.constraint.kept_masks import KeptMasks, Where
from agent.constraint.limits import ConstraintLimits
from agent.constraint.token_mask import (
    Bits,
    MaskWriter,
    allow,
    allowed_tokens,
    allows_any,
    drawn_token,
    forbid,
    new_bits,
)
from agent.constraint.walk_costs import TimeSpent, Wear


@dataclass(frozen=True, slots=True)
class ConstraintVocabulary:
    """What constraints need of a model. Every matcher holds it, and with it the lease on llama.cpp's vocabulary."""

    form: LLTokenizer
    size: int  # tokens with a logit; `form` may hold more
    end_tokens: tuple[int, ...]  # all tokens that end a generation
    lease: object = None  # what must live as long as `form` is used
    longest_token_bytes: int | None = None  # None: not known, and no masks are kept

    @property
    def spare_tokens(self) -> range:
        """Ids that `form` knows, and that no model can sample. The one before them may stand for the end."""
        return range(self.size + 1, self.form.vocab_size)


class LlguidanceMatcher:
    """Implements `ConstraintMatcher` (agent/core/backend.py). Not thread-safe: one owner at a time."""

    def __init__(
        self,
        matcher: LLMatcher,
        vocabulary: ConstraintVocabulary,
        writer: MaskWriter,
        limits: ConstraintLimits,
        wear: Wear | None = None,
        kept: KeptMasks | None = None,
    ) -> None:
        """`kept`: masks of the same compiled form, where it is one that they can be kept for."""
        self._matcher = matcher
        self._wear = wear or Wear()
        self._kept = kept
        self._where = None if kept is None else Where()  # None: masks are neither looked up nor kept any more
        self._vocabulary = vocabulary
        self._writer = writer
        self._own_bits: Bits = new_bits(vocabulary.form.vocab_size)
        self._bits = self._own_bits  # or one of those that are kept: not to be changed
        self._forced: deque[int] = deque()  # known to follow, not consumed yet
        self._tokens = 0
        self._spent = TimeSpent(limits)
        self._failed = bool(matcher.is_error())

    def __repr__(self) -> str:
        state = "failed" if self._failed else "finished" if self.is_finished else "walking"
        return f"<LlguidanceMatcher {self._tokens} tokens, {self._spent.seconds * 1e3:.1f} ms, {state}>"

    # The port

    def mask(self, logits: NDArray[np.float32]) -> bool:
        """-inf for every token that may not follow, in place. False: the constraint failed; the row is untouched."""
        started, spent_before = time.thread_time(), self._spent.seconds
        if not self._fill_bits():
            return False
        self._writer.apply(logits, self._bits)
        is_within_bounds = self._charge(started)
        self._wear.masked(self._spent.seconds - spent_before)
        return is_within_bounds

    def allows(self, token: int) -> bool:
        """Whether the mask would leave this token. False is also "ask the mask": for ends, and when it failed."""
        if self._failed or token in self._vocabulary.end_tokens or not 0 <= token < self._vocabulary.size:
            return False
        if self._forced:
            return token == self._forced[0]
        started = time.thread_time()
        is_allowed = self._matcher.validate_tokens([token]) == 1
        if self._is_broken():
            return self._fail()
        return self._charge(started) and is_allowed

    def accept(self, token: int) -> bool:
        """The token was sampled. False: the constraint failed or refuses it, which is final."""
        if self._failed:
            return False
        started = time.thread_time()
        if self._forced and self._forced[0] == token:
            self._forced.popleft()
        else:
            self._forced.clear()
        if token in self._vocabulary.end_tokens and not self._matcher.is_accepting():
            return self._fail()
        is_accepted = bool(self._matcher.consume_token(token))
        if self._is_broken() or not is_accepted:
            return self._fail()
        self._tokens += 1
        self._follow((token,))
        return self._charge(started)

    def take_forced(self, limit: int) -> Sequence[int]:
        """Tokens that must follow, at most `limit`, accepted already. Empty: there are none, or it failed.

        The library names up to 25,000 at once and takes 140 ms for it, so what is over the limit is kept for the
        next call.
        """
        if self._failed or limit < 1:
            return ()
        started = time.thread_time()
        if not self._forced:
            self._forced.extend(self._find_forced())
        taken = [self._forced.popleft() for _ in range(min(limit, len(self._forced)))]
        is_accepted = not taken or bool(self._matcher.consume_tokens(taken))
        if self._is_broken() or not is_accepted:
            self._fail()
            return ()
        self._tokens += len(taken)
        self._follow(taken)
        return taken if self._charge(started) else ()

    @property
    def temperature(self) -> None:
        """The request's own: a grammar without rule options asks for none."""
        return None

    @property
    def is_finished(self) -> bool:
        """Whether the text satisfies the constraint and nothing but the end can follow."""
        return not self._failed and bool(self._matcher.is_stopped())

    @property
    def failed(self) -> bool:
        """Whether the constraint can no longer be honoured: nothing that was generated may pass for finished."""
        return self._failed

    # For the trial run

    def allows_any(self) -> bool:
        """Whether any token may follow; false when it failed."""
        return self._fill_bits() and allows_any(self._bits, self._vocabulary.size)

    def draw(self, chance: Random) -> int | None:
        """One of the tokens that may follow and do not end the output; None when there is none, or it failed."""
        if not self._fill_bits():
            return None
        return drawn_token(self._bits, self._vocabulary.size, self._vocabulary.end_tokens, chance)

    def allowed(self) -> NDArray[np.intp]:
        """The ids that may follow, ascending; none at all when it failed."""
        return allowed_tokens(self._bits, self._vocabulary.size) if self._fill_bits() else np.empty(0, dtype=np.intp)

    # Private

    def _fill_bits(self) -> bool:
        """The mask into `_bits`; false when the constraint failed, also when it allows no token at all."""
        if self._failed:
            return False
        self._bits = self._own_bits
        if self._forced:
            self._bits.fill(0)
            allow(self._bits, self._forced[0])
            return True
        if self._kept is not None and self._where is not None and (kept := self._kept.find(self._where)) is not None:
            self._bits = kept
            return True
        started = time.thread_time()
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        self._wear.seconds += time.thread_time() - started
        if self._is_broken():
            return self._fail()
        if not self._matcher.is_accepting():
            # A grammar may name control tokens. One that would end the answer can only stand at its end.
            for token in self._vocabulary.end_tokens:
                forbid(self._bits, token)
        if not self._bits.any():
            return self._fail()
        if self._kept is not None and self._where is not None:
            self._kept.keep(self._where, self._bits)
        return True

    def _follow(self, tokens: Sequence[int]) -> None:
        if self._kept is not None and self._where is not None:
            self._where = self._kept.after(self._where, self._vocabulary.form.decode_bytes(list(tokens)))

    def _find_forced(self) -> Sequence[int]:
        tokens: list[int] = self._matcher.compute_ff_tokens()
        if self._is_broken():
            self._fail()
            return ()
        ends = self._vocabulary.end_tokens
        end = next((index for index, token in enumerate(tokens) if token in ends), len(tokens))
        return tokens[:end]

    def _is_broken(self) -> bool:
        if not self._matcher.is_error():
            return False
        self._wear.is_broken = True
        return True

    def _fail(self) -> bool:
        self._failed = True
        self._forced.clear()
        return False

    def _charge(self, started: float) -> bool:
        """False, and failed, when this walk has taken more than its share of the engine's time."""
        return self._spent.charge(started, self._tokens) or self._fail()
