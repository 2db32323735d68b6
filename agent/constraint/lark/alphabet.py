"""Cuts Unicode into the few sets of characters that a grammar tells apart (its minterms).

A set of characters is then an int, one bit for each minterm, whatever the ranges are: union, intersection and
emptiness are single operations. One more bit, `token`, stands for "a control token", which is no character.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from agent.constraint.languages.code_points import EVERY_CODE_POINT, code_points
from agent.constraint.tree import (
    LAST_CODE_POINT,
    CharacterClass,
    CodePointRanges,
    FreeText,
    Node,
    SubstringOf,
    Text,
    children,
)

_LENGTHS = ((0x10000, 18, LAST_CODE_POINT), (0x800, 12, 0xFFFF), (0x80, 6, 0x7FF))
"""Of characters that take 4, 3 and 2 bytes: the lowest, how many bits the bytes behind the first hold, the highest."""
_LONG = 256


class Alphabet:
    """The minterms of some classes of characters. Of other classes only unions of minterms have masks."""

    def __init__(self, classes: Iterable[CodePointRanges]) -> None:
        self._masks: dict[CodePointRanges, int] = {EVERY_CODE_POINT: 0}
        self._masks.update(dict.fromkeys(classes, 0))
        blocks = _cut_blocks(self._masks)
        self._masks.update(dict.fromkeys(blocks, 0))
        self._ranges: list[list[tuple[int, int]]] = []
        self._starts: list[tuple[int, int]] = []  # of the ranges above, and which minterm's they are; made on first use
        self._cut()
        self._blocks = [self._masks[block] for block in blocks]
        self.every_character = (1 << len(self._ranges)) - 1
        self.token = 1 << len(self._ranges)

    def _cut(self) -> None:
        """Sweeps over all borders; between two of them the set of classes that hold a character is the same."""
        toggles: dict[int, int] = {}
        for number, ranges in enumerate(self._masks):
            for first, last in ranges:
                toggles[first] = toggles.get(first, 0) ^ (1 << number)
                toggles[last + 1] = toggles.get(last + 1, 0) ^ (1 << number)
        borders = sorted(toggles)
        minterms: dict[int, int] = {}
        inside = 0
        for first, following in pairwise(borders):
            inside ^= toggles[first]
            if not inside:
                continue
            if inside not in minterms:
                minterms[inside] = len(minterms)
                self._ranges.append([])
            self._ranges[minterms[inside]].append((first, following - 1))
        classes = list(self._masks)
        for holders, minterm in minterms.items():
            for number in bits(holders):
                self._masks[classes[number]] |= 1 << minterm

    def mask(self, ranges: CodePointRanges) -> int:
        """The minterms of a class that the alphabet was made of."""
        return self._masks[ranges]

    def minterm_of(self, character: str) -> int:
        """The number of the minterm that holds a character, whichever it is. No surrogate."""
        if not self._starts:
            self._starts = sorted((first, number) for number, row in enumerate(self._ranges) for first, _ in row)
        return self._starts[bisect_right(self._starts, (ord(character), len(self._ranges))) - 1][1]

    def with_same_first_byte(self, mask: int) -> int:
        """Also the characters whose UTF-8 begins with the same byte as that of one in the mask."""
        for block in self._blocks:
            if mask & block:
                mask |= block
        return mask

    def add_union(self, ranges: CodePointRanges, mask: int) -> None:
        """Says what the mask of a class is that was made by `ranges(mask)`."""
        self._masks[ranges] = mask

    def mask_of_character(self, character: str) -> int:
        """The minterm of a single character that the alphabet was made of, as a class of its own."""
        return self._masks[((ord(character), ord(character)),)]

    def ranges(self, mask: int) -> CodePointRanges:
        """The characters of the minterms in the mask."""
        return code_points(pair for minterm in bits(mask & self.every_character) for pair in self._ranges[minterm])


def classes_in(node: Node) -> Iterator[CodePointRanges]:
    """The classes that an alphabet needs for this node, without those behind references."""
    stack = [node]
    while stack:
        current = stack.pop()
        match current:
            case CharacterClass(ranges):
                yield ranges
            case Text(text):
                yield from (((ord(letter), ord(letter)),) for letter in set(text))
            case FreeText(avoid, until):
                yield from (((ord(letter), ord(letter)),) for letter in set("".join(avoid) + (until or "")))
            case SubstringOf(chunks):
                yield from (((ord(letter), ord(letter)),) for letter in set("".join(chunks)))
            case _:
                stack.extend(children(current))


def _cut_blocks(classes: Iterable[CodePointRanges]) -> list[CodePointRanges]:
    """Those sets of characters with a first byte in common that lie partly inside and partly outside a class."""
    cut: dict[CodePointRanges, None] = {}
    for ranges in classes:
        for first, last in ranges:
            for code_point, side in ((first, 0), (last, 1)):
                block = _block(code_point)
                if code_point != block[-side][side]:
                    cut[block] = None
    return list(cut)


def _block(code_point: int) -> CodePointRanges:
    """The characters whose UTF-8 begins with the byte that this one's begins with."""
    for lowest, bits_behind, highest in _LENGTHS:
        if code_point >= lowest:
            first = code_point >> bits_behind << bits_behind
            return code_points(((max(first, lowest), min(first + (1 << bits_behind) - 1, highest)),))
    return ((code_point, code_point),)


def bits(number: int) -> list[int]:
    """The places of the ones in a number, from the lowest."""
    if number.bit_length() > _LONG and number.bit_count() > number.bit_length() // 16:
        # Arithmetic on long numbers costs their whole length for each of the ones.
        written = bin(number)[:1:-1]
        return [place for place, digit in enumerate(written) if digit == "1"]
    found = []
    while number:
        lowest = number & -number
        found.append(lowest.bit_length() - 1)
        number ^= lowest
    return found
