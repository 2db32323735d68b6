"""Walks a freshly compiled constraint for a few tokens, and refuses what would fail or stall an engine.

A compile says little: an empty language compiles, so does `((a{0,1000}){0,1000}){0,1000}`, which breaks after a few
tokens, and `a{1000000}`, which takes a second for one mask. Costs are CPU time of this thread.
"""

import random
import time
from collections.abc import Sequence
from typing import Protocol

from agent.constraint.errors import GrammarError
from agent.constraint.limits import ConstraintLimits

EMPTY_LANGUAGE = "no output can satisfy this; check for rules that never end and conditions that exclude each other"
TOO_COMPLEX = "too complex to follow while text is generated; make repetitions, alternatives and their nesting smaller"

_FORCED_AT_ONCE = 64


class TriedWalk(Protocol):
    """As much as is asked of a walk here (see matcher.LlguidanceMatcher)."""

    @property
    def is_finished(self) -> bool: ...

    @property
    def failed(self) -> bool: ...

    def allows_any(self) -> bool: ...

    def draw(self, chance: random.Random) -> int | None: ...

    def accept(self, token: int) -> bool: ...

    def take_forced(self, limit: int) -> Sequence[int]: ...


def warm(pristine: TriedWalk, limits: ConstraintLimits) -> None:
    """Compute the first mask, for all copies that are taken. Raises GrammarError for an empty language, and for
    first masks that take too long."""
    if not make_first_mask(pristine, limits) and not pristine.is_finished:
        raise GrammarError(EMPTY_LANGUAGE)


def make_first_mask(pristine: TriedWalk, limits: ConstraintLimits) -> bool:
    """Whether any token of the vocabulary may come first. Raises GrammarError when that takes too long to say."""
    started = time.thread_time()
    allows_any = pristine.allows_any()
    if time.thread_time() - started > limits.first_mask_seconds:
        raise GrammarError(TOO_COMPLEX)
    return allows_any


def walk(matcher: TriedWalk, limits: ConstraintLimits) -> None:
    """Follow the constraint along tokens drawn at random (the same for the same constraint), as an engine would.
    Uses the matcher up. Raises GrammarError when a step takes too long or the constraint breaks."""
    chance = random.Random(0)
    started = time.thread_time()
    for _ in range(limits.trial_tokens):
        before = time.thread_time()
        if before - started > limits.trial_seconds:
            return
        is_done = _step(matcher, chance)
        if matcher.failed or time.thread_time() - before > limits.step_seconds:
            raise GrammarError(TOO_COMPLEX)
        if is_done:
            return


def _step(matcher: TriedWalk, chance: random.Random) -> bool:
    """True: the constraint is finished, or broken."""
    if matcher.take_forced(_FORCED_AT_ONCE):
        return matcher.is_finished
    if matcher.is_finished:
        return True
    token = matcher.draw(chance)
    return token is None or not matcher.accept(token)
