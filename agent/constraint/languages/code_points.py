"""Sets of code points, as the sorted, disjoint ranges of the tree. Surrogates are in none of them."""

from collections.abc import Iterable

from agent.constraint.tree import LAST_CODE_POINT, CodePointRanges

FIRST_SURROGATE = 0xD800
LAST_SURROGATE = 0xDFFF

EVERY_CODE_POINT: CodePointRanges = ((0, FIRST_SURROGATE - 1), (LAST_SURROGATE + 1, LAST_CODE_POINT))


def code_points(ranges: Iterable[tuple[int, int]]) -> CodePointRanges:
    """The union of inclusive ranges in any order; what lies outside Unicode, and surrogates, are left out."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        elif low <= high:
            joined.append((low, high))
    return _without_surrogates(joined)


def letters(text: str) -> CodePointRanges:
    """The characters of the text."""
    return code_points((ord(c), ord(c)) for c in text)


def complement(ranges: CodePointRanges) -> CodePointRanges:
    """Every code point that is not in `ranges`."""
    rest, low = [], 0
    for first, last in ranges:
        if low < first:
            rest.append((low, first - 1))
        low = last + 1
    if low <= LAST_CODE_POINT:
        rest.append((low, LAST_CODE_POINT))
    return _without_surrogates(rest)


def without(ranges: CodePointRanges, others: CodePointRanges) -> CodePointRanges:
    """What is in `ranges` and not in `others`."""
    return complement(code_points((*complement(ranges), *others)))


def is_surrogate(code: int) -> bool:
    return FIRST_SURROGATE <= code <= LAST_SURROGATE


def _without_surrogates(ranges: Iterable[tuple[int, int]]) -> CodePointRanges:
    kept = []
    for low, high in ranges:
        if low < FIRST_SURROGATE:
            kept.append((low, min(high, FIRST_SURROGATE - 1)))
        if high > LAST_SURROGATE:
            kept.append((max(low, LAST_SURROGATE + 1), min(high, LAST_CODE_POINT)))
    return tuple(pair for pair in kept if pair[0] <= pair[1])
