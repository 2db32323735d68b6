"""Literals and character classes as GBNF and EBNF spell them: the same form, other escapes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent.constraint.languages.code_points import code_points, complement, is_surrogate
from agent.constraint.languages.source import Source
from agent.constraint.tree import LAST_CODE_POINT, CodePointRanges

_PLAIN_RUN = re.compile(r'[^"\\\r\n]+')
_HEX_RUN = re.compile(r"[0-9a-fA-F]*")


@dataclass(frozen=True, slots=True)
class Escapes:
    """What one notation allows. `hex_digits`: how many follow `\\x`, `\\u`, `\\U`; None: as many as there are."""

    notation: str
    in_literals: Mapping[str, str]
    in_classes: Mapping[str, str]
    hex_digits: Mapping[str, int | None]
    raw_newlines: bool


@dataclass(frozen=True, slots=True)
class Literal:
    """The text, where each of its characters is spelled, and the offset after the closing quote."""

    text: str
    offsets: tuple[int, ...]
    end: int


class Speller:
    """Reads the literals and classes of one text. Raises GrammarError on each that is malformed."""

    def __init__(self, source: Source, escapes: Escapes) -> None:
        self._source = source
        self._text = source.text
        self._escapes = escapes

    def literal(self, start: int) -> Literal:
        """The literal whose opening quote stands at `start`."""
        offset, pieces, offsets = start + 1, list[str](), list[int]()
        while not self._text.startswith('"', offset):
            run = _PLAIN_RUN.match(self._text, offset)
            if run is not None:
                pieces.append(run.group())
                offsets += range(offset, run.end())
                offset = run.end()
                continue
            code, end = self._code(start, offset, self._escapes.in_literals, "literal", '"')
            if code > LAST_CODE_POINT or is_surrogate(code):
                raise self._source.error(offset, f"U+{code:X} is no character; use another")
            pieces.append(chr(code))
            offsets.append(offset)
            offset = end
        return Literal("".join(pieces), (*offsets, offset), offset + 1)

    def character_class(self, start: int) -> tuple[CodePointRanges, bool, int]:
        """The class whose `[` stands at `start`: its ranges, whether anything was written in it, and its end."""
        negated = self._text.startswith("^", start + 1)
        begin = offset = start + 2 if negated else start + 1
        ranges = []
        while not self._text.startswith("]", offset):
            low, after = self._class_code(start, offset)
            high, end = low, after
            if self._text.startswith("-", after) and not self._text.startswith("]", after + 1):
                high, end = self._class_code(start, after + 1)
            if high < low:
                raise self._source.error(offset, "the range is reversed and matches nothing; write the lower end first")
            ranges.append((low, high))
            offset = end
        united = code_points(ranges)
        return (complement(united) if negated else united), offset > begin, offset + 1

    def _class_code(self, start: int, offset: int) -> tuple[int, int]:
        code, end = self._code(start, offset, self._escapes.in_classes, "character class", "]")
        if code > LAST_CODE_POINT:
            raise self._source.error(offset, f"U+{code:X} is no character; the last is \\U0010FFFF")
        return code, end

    def _code(self, start: int, offset: int, simple: Mapping[str, str], what: str, closer: str) -> tuple[int, int]:
        """The code point that is spelled at `offset`, and the offset after it. `start`: where the whole began."""
        letter = self._text[offset : offset + 1]
        if not letter:
            raise self._source.error(start, f"the {what} has no end; add the closing {closer}")
        if letter in "\r\n" and not self._escapes.raw_newlines:
            raise self._source.error(start, f"the {what} does not end on its line; close it, or write a newline as \\n")
        if letter != "\\":
            return ord(letter), offset + 1
        kind = self._text[offset + 1 : offset + 2]
        if kind in simple:
            return ord(simple[kind]), offset + 2
        if kind in self._escapes.hex_digits:
            return self._hexadecimal(kind, offset)
        raise self._source.error(offset, self._unknown_escape(kind, what, simple))

    def _hexadecimal(self, kind: str, offset: int) -> tuple[int, int]:
        wanted = self._escapes.hex_digits[kind]
        run = _HEX_RUN.match(self._text, offset + 2)
        digits = run.group()[:wanted] if run is not None else ""
        if not digits or (wanted is not None and len(digits) < wanted):
            count = wanted or "one or more"
            raise self._source.error(offset, f"\\{kind} takes {count} hexadecimal digits")
        # More than 8 significant digits are beyond Unicode anyway, and int() of a megabyte of digits is slow.
        return int(digits.lstrip("0")[:9] or "0", 16), offset + 2 + len(digits)

    def _unknown_escape(self, kind: str, what: str, simple: Mapping[str, str]) -> str:
        if kind in tuple("dDwWsS"):
            return f"{self._escapes.notation} has no \\{kind}; write the characters, such as [0-9] or [a-zA-Z0-9_]"
        known = " ".join(f"\\{c}" for c in (*simple, *self._escapes.hex_digits))
        return f"this escape is not known in a {what} of {self._escapes.notation}; there are {known}"
