"""What differs between the regular expressions that clients write."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from agent.constraint.languages.code_points import EVERY_CODE_POINT, code_points, complement, letters
from agent.constraint.languages.regex_unicode import python_class
from agent.constraint.tree import CodePointRanges

_ASCII_DIGIT = letters("0123456789")
_ASCII_WORD = letters("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True)
class RegexDialect:
    """`shorthand`: what `\\d`, `\\w` and `\\s` match, by their letter. `dot`: what `.` matches without the flag s."""

    shorthand: Callable[[str], CodePointRanges]
    dot: CodePointRanges
    is_javascript: bool = False
    """Whether `[]` is nothing, `[^]` anything, and `\\cA`, `\\0` and pairs of `\\uXXXX` surrogates are known."""


@cache
def python_dialect() -> RegexDialect:
    """The `regex` format. The classes are Unicode's, as in Python's `re`: `\\d` is any decimal digit."""
    return RegexDialect(python_class, complement(letters("\n")))


@cache
def javascript_dialect() -> RegexDialect:
    """ECMA-262, which JSON Schema's `pattern` is written in: `\\d` and `\\w` are ASCII, `\\s` its white space."""
    space = code_points((*letters("\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"), (0x2000, 0x200A)))
    return RegexDialect(_ascii(space), complement(letters("\n\r\u2028\u2029")), is_javascript=True)


@cache
def xgrammar_dialect(dot_takes_newline: bool = True) -> RegexDialect:
    """`Regex(...)` in XGrammar's EBNF. Its `.` is any character, unless flags are given and s is not among them."""
    dot = EVERY_CODE_POINT if dot_takes_newline else complement(letters("\n"))
    return RegexDialect(_ascii(letters("\t\n\v\f\r \u00a0")), dot)


def _ascii(space: CodePointRanges) -> Callable[[str], CodePointRanges]:
    return {"d": _ASCII_DIGIT, "w": _ASCII_WORD, "s": space}.__getitem__
