"""Sets of characters that Unicode names: Python's `\\d`, `\\w`, `\\s`, general categories, letters of either case.

All are computed when first asked for, from the tables that this Python carries: some 30 ms each.
"""

import re
import unicodedata
from collections import defaultdict
from functools import cache

from agent.constraint.languages.code_points import LAST_SURROGATE, code_points, is_surrogate
from agent.constraint.tree import LAST_CODE_POINT, CodePointRanges

_LAST_CASED = 0x1E943
_LAST_IN_A_CLASS = 0x3FFFF
"""No script after Adlam has two cases, and no plane after the third has letters, digits or spaces. That saves most of
the time; tests/unit/agent/constraint/test_regex_unicode.py looks at all that follow."""

_UNIFORM = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xD800, 0xDFFF),
    (0xE000, 0xF8FF),
    (0x20000, 0x2A6DF),
    (0x40000, 0xDFFFF),
    (0xE0200, 0xEFFFF),
    (0xF0000, 0xFFFFD),
    (0x100000, 0x10FFFD),
)
"""Stretches of one category: ideographs, Hangul, private use and what is not assigned."""

_FURTHER_PAIRS = ((0x130, 0x69), (0x390, 0x1FD3), (0x3B0, 0x1FE3), (0xFB05, 0xFB06))
"""The same to `re`, although no case mapping of one character joins them."""


@cache
def python_class(letter: str) -> CodePointRanges:
    """What `\\d`, `\\w` or `\\s` match in Python's `re` on text."""
    runs = re.compile(rf"\{letter}+")
    below = "".join(map(chr, range(0xD800)))
    above = "".join(map(chr, range(LAST_SURROGATE + 1, _LAST_IN_A_CLASS + 1)))
    shift = LAST_SURROGATE + 1
    return code_points(
        [
            *((run.start(), run.end() - 1) for run in runs.finditer(below)),
            *((run.start() + shift, run.end() - 1 + shift) for run in runs.finditer(above)),
        ]
    )


@cache
def category(name: str) -> CodePointRanges | None:
    """The general category `L`, `Lu`, `Nd`...; None: there is none of that name."""
    wanted = [ranges for short, ranges in _categories().items() if short.startswith(name)]
    return code_points(pair for ranges in wanted for pair in ranges) if name and wanted else None


def both_cases(ranges: CodePointRanges) -> CodePointRanges:
    """With each letter, those that Python's `re` takes for the same under IGNORECASE."""
    partners = [
        (partner, partner)
        for code, others in _case_partners().items()
        if any(low <= code <= high for low, high in ranges)
        for partner in others
    ]
    return code_points((*ranges, *partners))


@cache
def _categories() -> dict[str, CodePointRanges]:
    runs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    start = 0
    for first, last in (*_UNIFORM, (LAST_CODE_POINT + 1, LAST_CODE_POINT)):
        for code in range(start, first):
            runs[unicodedata.category(chr(code))].append((code, code))
        if first <= last:
            runs[unicodedata.category(chr(first))].append((first, last))
        start = last + 1
    runs.pop("Cs", None)
    return {name: code_points(pairs) for name, pairs in runs.items()}


@cache
def _case_partners() -> dict[int, tuple[int, ...]]:
    """Each letter with two cases, and all letters that are joined to it by simple lower or upper case."""
    classes: dict[int, set[int]] = {}
    for code, partner in [*_simple_pairs(), *_FURTHER_PAIRS]:
        joined = classes.get(code, {code}) | classes.get(partner, {partner})
        for member in joined:
            classes[member] = joined
    return {code: tuple(sorted(members - {code})) for code, members in classes.items()}


def _simple_pairs() -> list[tuple[int, int]]:
    pairs = []
    for code in range(_LAST_CASED + 1):
        if is_surrogate(code):
            continue
        letter = chr(code)
        pairs += [(code, ord(c)) for c in {letter.lower(), letter.upper()} if len(c) == 1 and c != letter]
    return pairs
