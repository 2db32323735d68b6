"""What a backslash begins in a regular expression."""

import re
from typing import NamedTuple

from agent.constraint.languages.code_points import complement, is_surrogate
from agent.constraint.languages.regex_anchors import END, START
from agent.constraint.languages.regex_dialect import RegexDialect
from agent.constraint.languages.regex_unicode import category
from agent.constraint.languages.source import Source
from agent.constraint.tree import LAST_CODE_POINT, CodePointRanges

_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_HEXADECIMAL = {
    "x": re.compile(r"[0-9a-fA-F]{2}"),
    "u": re.compile(r"[0-9a-fA-F]{4}"),
    "U": re.compile(r"[0-9a-fA-F]{8}"),
}
_BRACED = re.compile(r"\{([0-9a-fA-F]{1,8})\}")
_LOW_SURROGATE = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_PROPERTY = re.compile(r"([A-Z])|\{(\^?)([A-Za-z_]{1,2})\}")
_SHORTHANDS = "dDwWsS"

_REFUSED = {
    "b": "a word boundary is not supported; write out what may stand on either side",
    "B": "a word boundary is not supported; write out what may stand on either side",
    "k": "a back-reference is not supported; repeat the pattern itself",
    "g": "a back-reference is not supported; repeat the pattern itself",
    "N": "a character by name is not supported; write it as \\uXXXX",
    "p": "this property is not known; there are general categories, such as \\p{L}, \\p{Lu} and \\p{Nd}",
    "P": "this property is not known; there are general categories, such as \\P{L}, \\P{Lu} and \\P{Nd}",
    "G": "this anchor is not supported; remove it",
    "Q": "quoting by \\Q and \\E is not supported; escape each character",
    "R": "this class is not supported; write (?:\\r\\n|\\n|\\r)",
    "h": "this class is not supported; write [ \\t]",
}


class Escaped(NamedTuple):
    """Exactly one of the first three is set: one character, one of several, or an anchor."""

    code: int | None
    ranges: CodePointRanges | None
    anchor: str | None
    end: int


def read_escape(source: Source, offset: int, dialect: RegexDialect, in_class: bool) -> Escaped:
    """The escape whose backslash stands at `offset`. Raises GrammarError when it is refused or malformed."""
    kind = source.text[offset + 1 : offset + 2]
    after = offset + 2
    if not kind:
        raise source.error(offset, "a backslash stands at the end; escape it as \\\\")
    if kind in _SHORTHANDS:
        return Escaped(None, _shorthand(kind, dialect), None, after)
    if kind in _CONTROLS and not (kind == "a" and dialect.is_javascript):
        return Escaped(_CONTROLS[kind], None, None, after)
    if kind == "b" and in_class:
        return Escaped(8, None, None, after)
    if kind in _HEXADECIMAL:
        return _hexadecimal(source, offset, kind, dialect, in_class)
    if kind in "pP":
        found = _property(source, offset)
        if found is not None:
            return found
    if kind in "AzZ" and not in_class and not dialect.is_javascript:
        return Escaped(None, None, START if kind == "A" else END, after)
    if dialect.is_javascript and kind in "0c":
        return _javascript(source, offset, kind)
    if kind.isascii() and kind.isalnum():
        raise source.error(offset, _REFUSED.get(kind, _unknown(kind)))
    return Escaped(ord(kind), None, None, after)


def _unknown(kind: str) -> str:
    if kind == "0":
        return "octal escapes are not supported; write \\x00"
    if kind.isdigit():
        return "a back-reference is not supported; repeat the pattern itself"
    return f"\\{kind} is not known; escape only punctuation, or write a character as \\xHH"


def _shorthand(kind: str, dialect: RegexDialect) -> CodePointRanges:
    ranges = dialect.shorthand(kind.lower())
    return ranges if kind.islower() else complement(ranges)


def _hexadecimal(source: Source, offset: int, kind: str, dialect: RegexDialect, in_class: bool) -> Escaped:
    braced = _BRACED.match(source.text, offset + 2) if kind != "U" else None
    plain = _HEXADECIMAL[kind].match(source.text, offset + 2)
    if braced is not None:
        code, end = int(braced.group(1), 16), braced.end()
    elif plain is not None:
        code, end = int(plain.group(), 16), plain.end()
    else:
        digits = {"x": 2, "u": 4, "U": 8}[kind]
        raise source.error(offset, f"\\{kind} takes {digits} hexadecimal digits")
    if is_surrogate(code) and dialect.is_javascript:
        low = _LOW_SURROGATE.match(source.text, end)
        if code < 0xDC00 and low is not None:
            code, end = 0x10000 + ((code - 0xD800) << 10) + (int(low.group(1), 16) - 0xDC00), low.end()
    if code > LAST_CODE_POINT or (is_surrogate(code) and not in_class):
        raise source.error(offset, f"U+{code:X} is no character; use another")
    return Escaped(code, None, None, end)


def _property(source: Source, offset: int) -> Escaped | None:
    found = _PROPERTY.match(source.text, offset + 2)
    ranges = None if found is None else category(found.group(1) or found.group(3))
    if found is None or ranges is None:
        return None
    negated = (source.text[offset + 1] == "P") != bool(found.group(2))
    return Escaped(None, complement(ranges) if negated else ranges, None, found.end())


def _javascript(source: Source, offset: int, kind: str) -> Escaped:
    following = source.text[offset + 2 : offset + 3]
    if kind == "0" and not following.isdigit():
        return Escaped(0, None, None, offset + 2)
    if kind == "c" and following.isascii() and following.isalpha():
        return Escaped(ord(following) % 32, None, None, offset + 3)
    raise source.error(offset, f"this \\{kind} is not known; write the character as \\xHH")
