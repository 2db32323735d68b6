"""A constraint without a grammar: which tokens may follow is a function of a salt, the place and the token before.

Some places leave one token, so that runs are forced, some the end beside others; after `length` tokens nothing but
the end. `expected_constrained` walks it one token at a time, with no forced tokens, no batches and no cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.failures import FailureKind
from shared.generation import FinishReason
from tests.support.scripted_backend import (
    END_TOKEN,
    VOCABULARY_SIZE,
    ScriptedRow,
    digest,
    draw,
)


@dataclass(frozen=True, slots=True)
class ConstraintScript:
    """`forced_share` of 10 places leave one token. From token `breaks_at` on the constraint is broken."""

    salt: int = 0
    length: int = 6
    forced_share: int = 5
    may_end_early: bool = False
    breaks_at: int | None = None

    def allowed(self, accepted: Sequence[int]) -> frozenset[int]:
        """What may follow these tokens."""
        if len(accepted) >= self.length:
            return frozenset({END_TOKEN})
        last = accepted[-1] if accepted else -1
        mixed = hash((self.salt, len(accepted), last))
        first = 1 + mixed % (VOCABULARY_SIZE - 1)
        if mixed // 1000 % 10 < self.forced_share:
            return frozenset({first})
        others = {1 + (first + step * 17) % (VOCABULARY_SIZE - 1) for step in range(2 + mixed // 7 % 3)}
        return frozenset(others | {END_TOKEN}) if self.may_end_early and mixed % 4 == 0 else frozenset(others)

    def temperature(self, accepted: Sequence[int]) -> float | None:
        """What the token after these is sampled at, where the constraint says so."""
        return None if self.salt % 2 else float(hash((self.salt, len(accepted))) % 5)

    def matcher(self) -> "ScriptedMatcher":
        """A fresh walk."""
        return ScriptedMatcher(self)


@dataclass(slots=True)
class ScriptedMatcher:
    """Implements `ConstraintMatcher`. `calls` names the calls in their order."""

    script: ConstraintScript
    accepted: list[int] = field(default_factory=list)
    failed: bool = False
    calls: list[str] = field(default_factory=list)

    def mask(self, logits: ScriptedRow) -> bool:
        self.calls.append("mask")
        self._check_broken()
        assert not self.is_finished, "a finished constraint was asked for another token"
        # As llguidance: after an error nothing but the end is left.
        logits.allowed = frozenset({END_TOKEN}) if self.failed else self.script.allowed(self.accepted)
        return not self.failed

    def allows(self, token: int) -> bool:
        self.calls.append("allows")
        self._check_broken()
        return not self.failed and token != END_TOKEN and token in self.script.allowed(self.accepted)

    def accept(self, token: int) -> bool:
        self.calls.append("accept")
        assert token != END_TOKEN, "the end is not part of the output"
        self._check_broken()
        self.failed = self.failed or token not in self.script.allowed(self.accepted)
        self.accepted.append(token)
        return not self.failed

    def take_forced(self, limit: int) -> Sequence[int]:
        self.calls.append("take_forced")
        assert limit >= 1
        start = len(self.accepted)
        while len(self.accepted) - start < limit and not self.is_finished:
            allowed = self.script.allowed(self.accepted)
            if len(allowed) != 1:
                break
            self._check_broken()
            if self.failed:
                break
            self.accepted += allowed
        return self.accepted[start:]

    @property
    def temperature(self) -> float | None:
        return self.script.temperature(self.accepted)

    @property
    def is_finished(self) -> bool:
        return len(self.accepted) >= self.script.length

    def _check_broken(self) -> None:
        breaks_at = self.script.breaks_at
        if breaks_at is not None and len(self.accepted) >= breaks_at:
            self.failed = True


def expected_constrained(
    prompt: Sequence[int],
    script: ConstraintScript,
    max_tokens: int,
    request_limit_tokens: int,
    adapter: str | None = None,
) -> tuple[tuple[int, ...], FinishReason | FailureKind]:
    """The answer that prompt and script determine, and how it ends."""
    cells: list[tuple[int, int]] = []
    answer: list[int] = []
    while True:
        if len(answer) >= script.length:
            return tuple(answer), FinishReason.STOP
        if len(answer) >= max_tokens or len(prompt) + len(answer) >= request_limit_tokens:
            return tuple(answer), FinishReason.LENGTH
        if script.breaks_at is not None and len(answer) >= script.breaks_at:
            return tuple(answer), FailureKind.GRAMMAR_REJECTED_OUTPUT
        tokens = [*prompt, *answer]
        for position in range(len(cells), len(tokens)):
            cells.append((position, digest(tokens[position], position, cells, adapter)))
        token = draw(cells[-1][1] + int(script.temperature(answer) or 0), script.allowed(answer))
        assert token is not None, "the script allows nothing"
        if token == END_TOKEN:
            return tuple(answer), FinishReason.STOP
        answer.append(token)
