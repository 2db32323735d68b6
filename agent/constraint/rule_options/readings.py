"""The ways in which a text can be read so far, where rules with options were cut out: which of them are open in each.

Pure but for the matchers that it moves. A reading is one matcher, of the innermost open rule, and where to go on when
that rule ends. There are several where it is open whether the rule has ended or another one has begun.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.constraint.token_mask import Bits
from agent.constraint.tree import RuleOptions

MOST_READINGS = 4
"""Followed at a time. Each can be completed by itself, so dropping others leaves the answer in its language."""
MOST_LOOKED_AT = 64
"""Readings that one place may have while rules end and begin there. Over it a grammar is too ambiguous to follow."""
MOST_OPEN_RULES = 200
"""Inside each other, but for one that ends with itself. Each holds a matcher. Who goes deeper fails."""


class PartMatcher(Protocol):
    """As much as is asked of llguidance's matcher here."""

    def deep_copy(self) -> "PartMatcher": ...

    def validate_tokens(self, tokens: list[int]) -> int: ...

    def consume_token(self, token: int) -> bool: ...

    def compute_ff_tokens(self) -> list[int]: ...

    def unsafe_compute_mask_ptr(self, pointer: int, size: int) -> None: ...

    def is_error(self) -> bool: ...

    def is_accepting(self) -> bool: ...

    def is_stopped(self) -> bool: ...


class Part(Protocol):
    """A compiled rule with options. `entries`: by the token that stands for a rule inside it, that rule's part."""

    @property
    def options(self) -> RuleOptions: ...

    @property
    def entries(self) -> "Iterable[tuple[int, Part]]": ...

    def begin(self) -> PartMatcher:
        """A matcher at its start."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenRule:
    """One occurrence of a rule, which began after `began` tokens. `behind`: where to go on after it; None: nowhere."""

    part: Part
    began: int
    depth: int = 1
    outer: "OpenRule | None" = None
    behind: "Reading | None" = None

    def is_spent(self, tokens: int) -> bool:
        """Whether it has had all the tokens that it may have."""
        most = self.part.options.max_tokens
        return most is not None and tokens - self.began >= most


@dataclass(slots=True, eq=False)
class Reading:
    """`is_kept`: others go on from here too, later, so the matcher must stay as it is. `bits`: its mask, once made."""

    matcher: PartMatcher
    rule: OpenRule
    is_kept: bool = False
    bits: Bits | None = None

    def open_rules(self) -> Iterable[OpenRule]:
        """Innermost first."""
        rule: OpenRule | None = self.rule
        while rule is not None:
            yield rule
            rule = rule.outer

    def after(self, token: int) -> "Reading | None":
        """The reading with one token more; None where it cannot follow."""
        if self.matcher.validate_tokens([token]) != 1:
            return None
        matcher = self.matcher.deep_copy() if self.is_kept else self.matcher
        return Reading(matcher, self.rule) if matcher.consume_token(token) else None

    def entered(self, token: int, part: Part, tokens: int) -> "Reading":
        """The reading in which the rule begins that `token` stands for."""
        matcher = self.matcher.deep_copy()
        matcher.consume_token(token)
        if part is self.rule.part and matcher.is_accepting() and matcher.is_stopped():
            # Nothing comes behind it in the outer occurrence, so both end together: they are one.
            return Reading(part.begin(), self.rule)
        behind = Reading(matcher, self.rule, is_kept=True)
        return Reading(part.begin(), OpenRule(part, tokens, self.rule.depth + 1, self.rule, behind))


@dataclass(frozen=True, slots=True)
class Choices:
    """`readings`: those that a token can prolong. `may_end`: whether the text is whole as it is."""

    readings: Sequence[Reading]
    may_end: bool

    @property
    def temperature(self) -> float | None:
        """Of the innermost open rule that has one, the highest of all readings; None: of no rule."""
        found = [
            next((rule.part.options.temperature for rule in one.open_rules() if _has_temperature(rule)), None)
            for one in self.readings
        ]
        return max((one for one in found if one is not None), default=None)


def _has_temperature(rule: OpenRule) -> bool:
    return rule.part.options.temperature is not None


def choices_after(readings: Iterable[Reading], tokens: int) -> Choices:
    """What may follow `tokens` tokens, which were read in these ways: rules end and begin where they can, and must end
    where they can if they are spent. Nothing at all where already the first reading goes on in too many ways."""
    found: list[Reading] = []
    ended: set[OpenRule] = set()
    seen: set[int] = set()
    for reading in readings:
        more, ends = _reached(reading, tokens, seen)
        if len(found) + len(more) > MOST_LOOKED_AT:
            break
        found += more
        ended |= ends
    going_on = [
        one
        for one in found
        if not one.matcher.is_stopped()
        and not any(rule in ended and rule.is_spent(tokens) for rule in one.open_rules())
    ]
    return Choices(going_on, any(rule.behind is None for rule in ended))


def _reached(reading: Reading, tokens: int, seen: set[int]) -> tuple[list[Reading], set[OpenRule]]:
    """The reading, and those that come of it without a token where rules end and begin; and the rules that ended."""
    found: list[Reading] = []
    ended: set[OpenRule] = set()
    pending = deque((reading,))
    while pending and len(found) <= MOST_LOOKED_AT:
        one = pending.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        found.append(one)
        if one.matcher.is_accepting() and (one.rule.began < tokens or one.rule.behind is None):
            ended.add(one.rule)
            pending.extend(() if one.rule.behind is None else (one.rule.behind,))
        if one.matcher.is_stopped() or one.rule.depth >= MOST_OPEN_RULES:
            continue
        for token, part in one.rule.part.entries:
            if one.matcher.validate_tokens([token]) == 1:
                pending.append(one.entered(token, part, tokens))
    return found, ended


def readings_after(readings: Iterable[Reading], token: int) -> list[Reading]:
    """Those that the token prolongs, at most MOST_READINGS: first of all those that were first before."""
    prolonged: list[Reading] = []
    for reading in readings:
        if len(prolonged) < MOST_READINGS and (longer := reading.after(token)) is not None:
            prolonged.append(longer)
    return prolonged
