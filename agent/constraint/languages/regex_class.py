"""`[...]` in a regular expression."""

from typing import NamedTuple

from agent.constraint.languages.code_points import code_points, complement
from agent.constraint.languages.regex_dialect import RegexDialect
from agent.constraint.languages.regex_escapes import read_escape
from agent.constraint.languages.regex_unicode import both_cases
from agent.constraint.languages.source import Source
from agent.constraint.tree import CodePointRanges

_SET_OPERATORS = ("&&", "--", "~~")


class _Member(NamedTuple):
    """One character, or (code is None) a class in the class such as `\\d`."""

    code: int | None
    ranges: CodePointRanges
    end: int


def read_class(source: Source, start: int, dialect: RegexDialect, ignore_case: bool) -> tuple[CodePointRanges, int]:
    """The class whose `[` stands at `start`, and the offset after its `]`. Raises GrammarError."""
    text = source.text
    negated = text.startswith("^", start + 1)
    offset = first = start + 2 if negated else start + 1
    ranges: list[tuple[int, int]] = []
    while not text.startswith("]", offset) or (offset == first and not dialect.is_javascript):
        low = _member(source, start, offset, dialect)
        begin, offset = offset, low.end
        if text.startswith("-", offset) and offset + 1 < len(text) and text[offset + 1] != "]":
            high = _member(source, start, offset + 1, dialect)
            if low.code is not None and high.code is not None:
                if high.code < low.code:
                    raise source.error(begin, "the range is reversed; write the lower end first")
                ranges.append((low.code, high.code))
                offset = high.end
                continue
            if dialect.is_javascript:
                ranges += [*low.ranges, (ord("-"), ord("-")), *high.ranges]
                offset = high.end
                continue
            raise source.error(
                offset, "a class such as \\d cannot be the end of a range; escape the '-' or put it last"
            )
        ranges += low.ranges
    united = code_points(ranges)
    if ignore_case:
        united = both_cases(united)
    return (complement(united) if negated else united), offset + 1


def _member(source: Source, start: int, offset: int, dialect: RegexDialect) -> _Member:
    text = source.text
    if offset >= len(text):
        raise source.error(start, "this '[' is never closed; add the ']' or escape it as \\[")
    if text[offset] == "\\":
        escaped = read_escape(source, offset, dialect, in_class=True)
        if escaped.code is not None:
            return _Member(escaped.code, ((escaped.code, escaped.code),), escaped.end)
        return _Member(None, escaped.ranges or (), escaped.end)
    if not dialect.is_javascript:
        _refuse_set_syntax(source, offset)
    return _Member(ord(text[offset]), ((ord(text[offset]), ord(text[offset])),), offset + 1)


def _refuse_set_syntax(source: Source, offset: int) -> None:
    """What is a set operation or a named class elsewhere, and plain characters in Python, which nobody means."""
    pair = source.text[offset : offset + 2]
    if pair in _SET_OPERATORS:
        raise source.error(
            offset, f"set operations such as {pair!r} are not supported; escape the characters or write the set out"
        )
    if pair in ("[:", "[.", "[="):
        raise source.error(
            offset, "POSIX classes such as [:alpha:] are not supported; write [a-zA-Z], or escape the '['"
        )
