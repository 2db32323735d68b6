"""Regular expressions, as far as Python, Rust and PCRE agree and a finite automaton can follow.

A regex describes the whole output. Lazy quantifiers have the language of greedy ones; groups capture nothing; `^`, `$`,
`\\A`, `\\z` and `\\Z` at the ends change nothing. Refused, because no automaton has them or the dialects disagree:
look-around, back-references, word boundaries, possessive quantifiers and atomic groups, recursion, conditions, set
operations and POSIX classes in `[...]`, octal escapes, and the flags m, x, a, L. The flags i and s are known, for the
whole (`(?i)` at the beginning) and for a group (`(?i:...)`).
"""

import re
from typing import NamedTuple

from agent.constraint.languages.code_points import EVERY_CODE_POINT, letters
from agent.constraint.languages.groups import Groups
from agent.constraint.languages.regex_anchors import END, START, resolve_anchors
from agent.constraint.languages.regex_class import read_class
from agent.constraint.languages.regex_dialect import RegexDialect, python_dialect
from agent.constraint.languages.regex_escapes import read_escape
from agent.constraint.languages.regex_unicode import both_cases
from agent.constraint.languages.source import Source, repetition_count
from agent.constraint.tree import EMPTY, CharacterClass, CodePointRanges, FreeText, Node, Reference, Repeat, Text

_PLAIN_RUN = re.compile(r"[^\\^$.|?*+()\[{]+")
_QUANTIFIER = re.compile(r"[*+?]|\{([0-9]+)(,([0-9]*))?\}")
_NO_LOWER_BOUND = re.compile(r"\{,[0-9]*\}")
_NAMED_GROUP = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z_0-9]*)>")
_COMMENT = re.compile(r"\(\?#[^)]*\)")
_FLAGS = re.compile(r"\(\?(?!\))([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_KNOWN_FLAGS = frozenset("isu")

_REFUSED_GROUPS = {
    "(?=": "look-ahead is not supported; write out what may follow",
    "(?!": "look-ahead is not supported; write out what may follow",
    "(?<=": "look-behind is not supported; write out what may precede",
    "(?<!": "look-behind is not supported; write out what may precede",
    "(?>": "atomic groups are not supported; write (?: instead",
    "(?P=": "a back-reference is not supported; repeat the pattern itself",
    "(?(": "conditions are not supported; write the alternatives out",
}


class _Flags(NamedTuple):
    ignore_case: bool = False
    dot_takes_newline: bool = False


def parse_regex(
    pattern: str,
    dialect: RegexDialect | None = None,
    *,
    is_search: bool = False,
    outside: Node | None = None,
    ignore_case: bool = False,
    source: Source | None = None,
) -> Node:
    """The texts that the pattern matches as a whole, or with `is_search` those in which it is found somewhere.

    The dialect is Python's if none is given. `outside`: what stands before and after, where no anchor says that nothing
    does, instead of the texts that `is_search` means. `source`: the same pattern with its places in a greater text.
    Raises GrammarError.
    """
    parser = _Parser(source or Source(pattern), dialect or python_dialect(), _Flags(ignore_case=ignore_case))
    return resolve_anchors(parser.parse(), outside or (FreeText() if is_search else EMPTY))


class _Parser:
    def __init__(self, source: Source, dialect: RegexDialect, flags: _Flags) -> None:
        self._source = source
        self._text = source.text
        self._dialect = dialect
        self._groups = Groups(source)
        self._flags = [flags]
        self._names: set[str] = set()
        self._repeatable = False

    def parse(self) -> Node:
        offset = self._global_flags()
        while offset < len(self._text):
            offset = self._next(offset)
        if self._groups.nesting:
            raise self._source.error(
                self._groups.innermost.offset, "this '(' is never closed; add the ')' or escape it"
            )
        return self._groups.close()[0]

    def _next(self, offset: int) -> int:
        match self._text[offset]:
            case "(":
                return self._open(offset)
            case ")":
                return self._close(offset)
            case "|":
                self._groups.bar()
                self._repeatable = False
                return offset + 1
            case "^":
                return self._add_anchor(START, offset, offset + 1)
            case "$":
                return self._add_anchor(END, offset, offset + 1)
            case ".":
                dot = EVERY_CODE_POINT if self._flags[-1].dot_takes_newline else self._dialect.dot
                return self._add_class(dot, offset, offset + 1)
            case "[":
                ranges, end = read_class(self._source, offset, self._dialect, self._flags[-1].ignore_case)
                return self._add_class(ranges, offset, end)
            case "\\":
                return self._escape(offset)
            case "*" | "+" | "?" | "{":
                return self._quantifier(offset)
            case _:
                return self._plain(offset)

    # Items

    def _add_class(self, ranges: CodePointRanges, offset: int, end: int) -> int:
        self._groups.add(CharacterClass(ranges, self._source.position(offset)), offset)
        self._repeatable = True
        return end

    def _add_anchor(self, name: str, offset: int, end: int) -> int:
        self._groups.add(Reference(name, self._source.position(offset)), offset)
        self._repeatable = False
        return end

    def _add_text(self, text: str, offset: int) -> None:
        """Under the flag i each letter of two cases becomes a class; what lies between stays text."""
        self._repeatable = True
        if not self._flags[-1].ignore_case:
            self._groups.add(Text(text, self._source.position(offset)), offset)
            return
        for place, letter in enumerate(text, offset):
            ranges = both_cases(letters(letter))
            is_single = ranges == letters(letter)
            position = self._source.position(place)
            self._groups.add(Text(letter, position) if is_single else CharacterClass(ranges, position), place)

    def _plain(self, offset: int) -> int:
        """A run of characters without meaning; what follows may be a quantifier of the last one alone."""
        run = _PLAIN_RUN.match(self._text, offset)
        text = run.group() if run is not None else self._text[offset]
        if len(text) > 1:
            self._add_text(text[:-1], offset)
        self._add_text(text[-1], offset + len(text) - 1)
        return offset + len(text)

    def _escape(self, offset: int) -> int:
        escaped = read_escape(self._source, offset, self._dialect, in_class=False)
        if escaped.anchor is not None:
            return self._add_anchor(escaped.anchor, offset, escaped.end)
        if escaped.code is not None:
            self._add_text(chr(escaped.code), offset)
            return escaped.end
        ranges = escaped.ranges or ()
        return self._add_class(both_cases(ranges) if self._flags[-1].ignore_case else ranges, offset, escaped.end)

    # Groups

    def _global_flags(self) -> int:
        found = _FLAGS.match(self._text)
        if found is None or found.group(3) == ":":
            return 0
        self._flags = [self._changed_flags(found, 0)]
        return found.end()

    def _changed_flags(self, found: re.Match[str], offset: int) -> _Flags:
        on, off = set(found.group(1)), set(found.group(2) or "")
        unknown = (on | off) - _KNOWN_FLAGS
        if unknown:
            raise self._source.error(offset, f"the flag {min(unknown)!r} is not supported; there are i and s")
        flags = self._flags[-1]
        return _Flags(
            (flags.ignore_case or "i" in on) and "i" not in off,
            (flags.dot_takes_newline or "s" in on) and "s" not in off,
        )

    def _open(self, offset: int) -> int:
        flags = self._flags[-1]
        end = offset + 1
        if self._text.startswith("(?", offset):
            comment = _COMMENT.match(self._text, offset)
            if comment is not None:
                return comment.end()
            named, flagged = _NAMED_GROUP.match(self._text, offset), _FLAGS.match(self._text, offset)
            if named is not None:
                self._refuse_second(named.group(1), offset)
                end = named.end()
            elif flagged is not None and flagged.group(3) == ":":
                flags, end = self._changed_flags(flagged, offset), flagged.end()
            else:
                raise self._source.error(offset, self._refused_group(offset, flagged is not None))
        self._groups.open(offset)
        self._flags.append(flags)
        self._repeatable = False
        return end

    def _refuse_second(self, name: str, offset: int) -> None:
        if name in self._names:
            raise self._source.error(offset, "two groups have the same name; rename one")
        self._names.add(name)

    def _refused_group(self, offset: int, is_flags: bool) -> str:
        for begin, sentence in _REFUSED_GROUPS.items():
            if self._text.startswith(begin, offset):
                return sentence
        if is_flags:
            return "flags for the whole stand at the beginning; move them, or write (?i:...)"
        return "this kind of group is not known; there are (...), (?:...), (?<name>...) and (?P<name>...)"

    def _close(self, offset: int) -> int:
        if not self._groups.nesting:
            raise self._source.error(offset, "this ')' closes nothing; remove it or escape it as \\)")
        node, group, depth = self._groups.close()
        self._groups.add(node, group.offset, depth)
        self._flags.pop()
        self._repeatable = True
        return offset + 1

    # Quantifiers

    def _quantifier(self, offset: int) -> int:
        found = _QUANTIFIER.match(self._text, offset)
        if found is None:
            if _NO_LOWER_BOUND.match(self._text, offset):
                raise self._source.error(offset, "a quantifier needs its lower bound; write {0,n}, or escape the '{'")
            self._add_text("{", offset)
            return offset + 1
        if not self._repeatable:
            raise self._source.error(offset, "there is nothing before this to repeat; escape it to mean the character")
        least, most = self._bounds(found, offset)
        end = found.end() + 1 if self._text.startswith("?", found.end()) else found.end()
        if self._text.startswith("+", end):
            raise self._source.error(end, "possessive quantifiers are not supported; remove the '+'")
        if _QUANTIFIER.match(self._text, end):
            raise self._source.error(end, "two quantifiers follow each other; put the first in a group, as in (?:a*)*")
        body, depth = self._groups.take_last()
        node = EMPTY if most == 0 else Repeat(body, least, most, self._source.position(offset))
        self._groups.add(node, offset, depth + 1)
        self._repeatable = False
        return end

    def _bounds(self, found: re.Match[str], offset: int) -> tuple[int, int | None]:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if found.group() in simple:
            return simple[found.group()]
        least = repetition_count(found.group(1), self._source, offset)
        if found.group(2) is None:
            return least, least
        if not found.group(3):
            return least, None
        most = repetition_count(found.group(3), self._source, offset)
        if most < least:
            raise self._source.error(offset, f"the upper bound {most} is below the lower bound {least}; swap them")
        return least, most
