"""Finds long runs of parts that may all be left out (`a*b*c*…`), which llguidance takes square time and memory for.

20,000 such parts take 17 s and 2.3 GB, and 4,000 of them 0.6 s and 100 MB; with a part between them that must be there
the same 20,000 take 40 ms.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.constraint.errors import GrammarError
from agent.constraint.lark.rule_order import leaves_first
from agent.constraint.tree import (
    Choice,
    FreeText,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    SubstringOf,
    references,
)

MOST_OPTIONAL_PARTS = 1_000


@dataclass(frozen=True, slots=True)
class _Run:
    """Parts that may be left out: those at the start, those at the end, and most in a row anywhere.

    `is_optional`: all of it may be left out, so that runs go on through it.
    """

    first: int = 0
    last: int = 0
    is_optional: bool = False


_MUST_BE_THERE = _Run()


def refuse_long_optional_runs(rules: Mapping[str, Node]) -> None:
    """Raises GrammarError with the place of a sequence that has more than MOST_OPTIONAL_PARTS in a row.

    Rules that refer to each other in a circle are no part of a terminal: a run ends at them. Nothing is said of rules
    that refer to undefined ones; others do.
    """
    if any(used not in rules for body in rules.values() for used in references(body)):
        return
    measure = _Measure()
    for group in leaves_first(rules):
        for name in group:
            measure.learn(name, rules[name])


class _Measure:
    def __init__(self) -> None:
        self._known: dict[str, _Run] = {}

    def learn(self, name: str, body: Node) -> None:
        """The rules that it refers to are known already, save those of its circle."""
        self._known[name] = self._of(body)

    def _of(self, node: Node) -> _Run:
        match node:
            case Reference(name):
                return self._known.get(name, _MUST_BE_THERE)
            case Sequence():
                return self._sequence(node)
            case Choice(options):
                runs = [self._of(option) for option in options]
                is_optional = any(run.is_optional for run in runs)
                first = max((run.first for run in runs), default=0)
                return _Run(first, max((run.last for run in runs), default=0), is_optional)
            case Repeat(body, least):
                run = self._of(body)
                return _Run(max(1, run.first), max(1, run.last), True) if least == 0 or run.is_optional else run
            case Shortest(body):
                return self._of(body)
            case FreeText(_, None) | SubstringOf():
                return _Run(1, 1, True)
            case _:
                return _MUST_BE_THERE

    def _sequence(self, node: Sequence) -> _Run:
        first = run = 0
        is_optional = True
        for part in node.parts:
            found = self._of(part)
            run += found.first
            if run > MOST_OPTIONAL_PARTS:
                sentence = f"over {MOST_OPTIONAL_PARTS} parts in a row may all be left out; put something between them"
                raise GrammarError(sentence, part.position or node.position)
            if is_optional:
                first = run
            if not found.is_optional:
                is_optional = False
                run = found.last
        return _Run(first, run, is_optional)
