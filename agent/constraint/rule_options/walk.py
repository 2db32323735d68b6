"""One request's walk through a grammar with rule options: the engine's `ConstraintMatcher` over several matchers.

What may follow is what may follow in any of the readings. A rule with options begins and ends between tokens: one that
holds its last character and what comes behind it cannot be used.
"""

import time
from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary
from agent.constraint.rule_options.readings import Choices, OpenRule, Part, Reading, choices_after, readings_after
from agent.constraint.token_mask import (
    Bits,
    MaskWriter,
    allow,
    allowed_tokens,
    allows,
    allows_any,
    drawn_token,
    forbid,
    new_bits,
)
from agent.constraint.walk_costs import TimeSpent, Wear


class RuleWalk:
    """Implements `ConstraintMatcher` (agent/core/backend.py). Not thread-safe: one owner at a time."""

    def __init__(
        self,
        root: Part,
        vocabulary: ConstraintVocabulary,
        writer: MaskWriter,
        limits: ConstraintLimits,
        wear: Wear,
    ) -> None:
        self._vocabulary = vocabulary
        self._writer = writer
        self._wear = wear
        self._spent = TimeSpent(limits)
        self._tokens = 0
        self._failed = False
        self._choices = Choices((), may_end=False)
        self._choose([Reading(root.begin(), OpenRule(root, began=0))])

    def __repr__(self) -> str:
        state = "failed" if self._failed else f"{len(self._choices.readings)} readings"
        return f"<RuleWalk {self._tokens} tokens, {state}>"

    # The port

    def mask(self, logits: NDArray[np.float32]) -> bool:
        """-inf for every token that may not follow, in place. False: the constraint failed; the row is untouched."""
        started, spent_before = time.thread_time(), self._spent.seconds
        bits = self._bits()
        if bits is None:
            return False
        self._writer.apply(logits, bits)
        is_within_bounds = self._charge(started)
        self._wear.masked(self._spent.seconds - spent_before)
        return is_within_bounds

    def allows(self, token: int) -> bool:
        """Whether the mask would leave this token. False is also "ask the mask": for ends, and when it failed."""
        if self._failed or not self._is_text(token):
            return False
        started = time.thread_time()
        readings = self._choices.readings
        if len(readings) == 1:
            is_allowed = readings[0].matcher.validate_tokens([token]) == 1
        else:  # of one whose next token is forced the mask knows more
            is_allowed = any(allows(self._bits_of(one), token) for one in readings)
        return self._charge(started) and is_allowed

    def accept(self, token: int) -> bool:
        """The token was sampled. False: the constraint failed or refuses it, which is final."""
        if self._failed or not self._is_text(token):
            return self._fail()
        started = time.thread_time()
        self._take(token)
        return self._charge(started)

    def take_forced(self, limit: int) -> Sequence[int]:
        """Tokens that must follow, at most `limit`, accepted already. Empty: there are none, or it failed."""
        if self._failed or limit < 1 or self._choices.may_end or len(self._choices.readings) > 1:
            return ()
        started = time.thread_time()
        (reading,) = self._choices.readings
        forced = reading.matcher.compute_ff_tokens()
        end = next((place for place, token in enumerate(forced) if not self._is_text(token)), len(forced))
        taken = forced[: min(limit, end)]
        for token in taken:
            if not self._take(token):
                return ()
        return taken if self._charge(started) else ()

    @property
    def temperature(self) -> float | None:
        """Of the rule that is open, if it has one."""
        choices = self._choices
        if choices.temperature is None or len(choices.readings) == 1:
            return choices.temperature
        return Choices(self._text_readings(), choices.may_end).temperature

    @property
    def is_finished(self) -> bool:
        """Whether the text satisfies the constraint and nothing but the end can follow."""
        return not self._failed and self._choices.may_end and not self._text_readings() and not self._failed

    @property
    def failed(self) -> bool:
        """Whether the constraint can no longer be honoured: nothing that was generated may pass for finished."""
        return self._failed

    # For the trial run

    def allows_any(self) -> bool:
        """Whether any token may follow; false when it failed."""
        bits = self._bits()
        return bits is not None and allows_any(bits, self._vocabulary.size)

    def draw(self, chance: Random) -> int | None:
        """One of the tokens that may follow and do not end the output; None when there is none, or it failed."""
        bits = self._bits()
        if bits is None:
            return None
        return drawn_token(bits, self._vocabulary.size, self._vocabulary.end_tokens, chance)

    def allowed(self) -> NDArray[np.intp]:
        """The ids that may follow, ascending; none at all when it failed."""
        bits = self._bits()
        return np.empty(0, dtype=np.intp) if bits is None else allowed_tokens(bits, self._vocabulary.size)

    # Private

    def _take(self, token: int) -> bool:
        self._tokens += 1
        before = self._choices.readings
        if self._choose(readings_after(before, token)):
            return True
        self._wear.is_broken = self._wear.is_broken or any(one.matcher.is_error() for one in before)
        return False

    def _choose(self, readings: Sequence[Reading]) -> bool:
        """The readings of the text so far become the present ones. False, and failed: there are none."""
        self._choices = choices_after(readings, self._tokens)
        return bool(self._choices.readings or self._choices.may_end) or self._fail()

    def _text_readings(self) -> Sequence[Reading]:
        """Those in which more may follow than rules that begin."""
        started = time.thread_time()
        found = [one for one in self._choices.readings if allows_any(self._bits_of(one), self._vocabulary.size)]
        self._charge(started)
        return found

    def _bits(self) -> Bits | None:
        """What may follow in any reading, or the end; None when the constraint failed."""
        if self._failed:
            return None
        bits = new_bits(self._vocabulary.form.vocab_size)
        for reading in self._choices.readings:
            bits |= self._bits_of(reading)
        if self._choices.may_end:
            for token in self._vocabulary.end_tokens:
                allow(bits, token)
        if not self._choices.may_end and not allows_any(bits, self._vocabulary.size):
            self._fail()  # what must follow is a rule that cannot begin: broken, or nested too deep
        return None if self._failed else bits

    def _bits_of(self, reading: Reading) -> Bits:
        """What may follow in this reading, without the end; nothing at all when its matcher broke."""
        if reading.bits is None:
            reading.bits = bits = new_bits(self._vocabulary.form.vocab_size)
            started = time.thread_time()
            reading.matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
            self._wear.seconds += time.thread_time() - started
            if reading.matcher.is_error():
                self._wear.is_broken = True
                self._fail()
                bits.fill(0)
            for token in self._vocabulary.end_tokens:
                forbid(bits, token)
        return reading.bits

    def _is_text(self, token: int) -> bool:
        """Whether it is a token of the vocabulary that does not end the answer."""
        return 0 <= token < self._vocabulary.size and token not in self._vocabulary.end_tokens

    def _fail(self) -> bool:
        self._failed = True
        return False

    def _charge(self, started: float) -> bool:
        """False, and failed, when this walk has taken more than its share of the engine's time."""
        if self._failed:
            return False
        return self._spent.charge(started, self._tokens) or self._fail()
