"""XGrammar's EBNF, as xgrammar 0.2.7 reads it; the root rule is `root`.

White space and line ends mean nothing, except that a rule's name is the first word on its line. Unlike in GBNF names
hold `_` and `.`, `\\x` takes any number of digits, `[]` matches nothing and `[^]` anything, an alternative cannot be
empty (write `""`), left recursion is fine, and `.` is part of a name. A lookahead `(= ... )` at the end of a body is a
hint that changes no language: it is checked and dropped.
"""

import re

from agent.constraint.errors import GrammarError
from agent.constraint.languages.definition_sign import may_be_sign
from agent.constraint.languages.ebnf_header import NAME, Header, no_header, read_header, rule_options, with_options
from agent.constraint.languages.ebnf_macros import MACROS, MacroReader
from agent.constraint.languages.groups import Groups, depth_of
from agent.constraint.languages.source import Source, repetition_count
from agent.constraint.languages.spelling import Escapes, Speller
from agent.constraint.tree import EMPTY, CharacterClass, Grammar, Node, Reference, Repeat, Text

ROOT = "root"

_IN_LITERALS = {c: c for c in "\"\\/'?"} | dict(zip("nrtbfav0e", "\n\r\t\b\f\a\v\0\x1b", strict=True))
_IN_CLASSES = _IN_LITERALS | {c: c for c in "^$\\.*+?()[]{}|/-"}
_ESCAPES = Escapes("EBNF", _IN_LITERALS, _IN_CLASSES, {"x": None, "u": 4, "U": 8}, raw_newlines=False)
_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*)*")
_DIGITS = re.compile(r"[0-9]+")


def parse_ebnf(text: str) -> Grammar:
    """Raises GrammarError for what XGrammar refuses, and for what cannot be honoured here."""
    return _Parser(Source(text)).parse()


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = source.text
        self._speller = Speller(source, _ESCAPES)
        self._groups = Groups(source)
        self._macros = MacroReader(source, self._speller, self._space)
        self._rules: dict[str, Node] = {}
        self._references: dict[str, int] = {}
        self._in_lookahead = False
        self._after_lookahead = False
        self._repeatable = False

    def parse(self) -> Grammar:
        headers: list[Header] = []
        offset = self._space(0)
        while offset < len(self._text):
            header = read_header(self._source, offset, self._space)
            if header is None:
                raise no_header(self._source, offset, self._space)
            if header.name in self._rules:
                raise self._source.error(offset, f"the rule {header.name!r} is defined twice; remove or rename one")
            headers.append(header)
            offset = self._body(header.end)
            self._rules[header.name], _, _ = self._groups.close()
        for name, place in (self._references | self._macros.references).items():
            if name not in self._rules:
                remedy = "write [^] for any character" if name == "." else f"add {name} ::= and a body"
                raise self._source.error(place, f"the rule {name!r} is not defined; {remedy}")
        if ROOT not in self._rules:
            raise GrammarError(f"the grammar has no rule {ROOT!r}, at which the output begins; add it")
        found = {header.name: rule_options(header) for header in headers}
        optioned = {name: options for name, options in found.items() if options is not None}
        for header in headers:
            self._rules[header.name] = with_options(self._rules, header, optioned.keys(), self._source)
        return Grammar(self._rules, ROOT, optioned)

    def _space(self, offset: int) -> int:
        found = _SPACE.match(self._text, offset)
        return offset if found is None else found.end()

    def _body(self, offset: int) -> int:
        """Reads up to the next rule's name or the end of the text, and returns the offset of that."""
        self._repeatable = self._in_lookahead = self._after_lookahead = False
        offset = self._space(offset)
        self._groups.begin(offset)
        while offset < len(self._text):
            if self._is_rule_start(offset):
                break
            if self._after_lookahead:
                raise self._source.error(
                    offset, "a lookahead (= ...) must be the last thing in its rule; remove what follows"
                )
            offset = self._space(self._next(offset))
        if self._groups.nesting:
            raise self._source.error(self._groups.innermost.offset, "this '(' is never closed; add the ')'")
        if not self._after_lookahead:
            self._refuse_empty_option(offset)
        return offset

    def _is_rule_start(self, offset: int) -> bool:
        if read_header(self._source, offset, self._space) is None:
            return False
        position = self._source.position(offset)
        if self._text[offset - position.column + 1 : offset].strip(" \t"):
            raise self._source.error(offset, "a rule must begin on a line of its own; start a new line before it")
        return True

    def _next(self, offset: int) -> int:
        match self._text[offset]:
            case "(":
                return self._open(offset)
            case ")":
                return self._close(offset)
            case "|":
                return self._bar(offset)
            case "*" | "+" | "?" | "{":
                return self._operator(offset)
            case '"':
                literal = self._speller.literal(offset)
                return self._add(
                    Text(literal.text, self._source.position(offset)) if literal.text else EMPTY, offset, literal.end
                )
            case "[":
                ranges, _, end = self._speller.character_class(offset)
                return self._add(CharacterClass(ranges, self._source.position(offset)), offset, end)
            case _:
                return self._named(offset)

    # Items

    def _add(self, node: Node, offset: int, end: int) -> int:
        self._groups.add(node, offset, depth_of(node))
        self._repeatable = True
        return end

    def _named(self, offset: int) -> int:
        name = NAME.match(self._text, offset)
        if name is None:
            remedy = "a rule is written name ::= body, text as" if may_be_sign(self._text, offset) else "quote text as"
            raise self._source.error(offset, f'{self._source.found(offset)} has no meaning here; {remedy} in "x"')
        if name.group() in ("true", "false"):
            raise self._source.error(offset, f"{name.group()} is no rule name; quote it to mean the text")
        if name.group() in MACROS:
            node, end = self._macros.read(name.group(), offset, name.end())
            return self._add(node, offset, end)
        self._references.setdefault(name.group(), offset)
        return self._add(Reference(name.group(), self._source.position(offset)), offset, name.end())

    # Groups

    def _open(self, offset: int) -> int:
        if self._text.startswith("(=", offset):
            self._refuse_empty_option(offset)
            if self._groups.nesting:
                raise self._source.error(
                    offset, "a lookahead (= ...) must be the last thing in its rule, outside all groups"
                )
            self._in_lookahead = True
            self._groups.open(offset)
            self._repeatable = False
            return offset + 2
        end = self._space(offset + 1)
        if self._text.startswith(")", end):
            return self._add(EMPTY, offset, end + 1)
        self._groups.open(offset)
        self._repeatable = False
        return end

    def _bar(self, offset: int) -> int:
        self._refuse_empty_option(offset)
        if self._in_lookahead and self._groups.nesting == 1:
            raise self._source.error(offset, "a lookahead (= ...) cannot have alternatives; put them in parentheses")
        self._groups.bar()
        self._repeatable = False
        return offset + 1

    def _close(self, offset: int) -> int:
        if not self._groups.nesting:
            raise self._source.error(offset, "this ')' closes nothing; remove it")
        self._refuse_empty_option(offset)
        node, group, depth = self._groups.close()
        if self._in_lookahead and not self._groups.nesting:
            self._in_lookahead, self._after_lookahead = False, True
            return offset + 1
        self._groups.add(node, group.offset, depth)
        self._repeatable = True
        return offset + 1

    def _refuse_empty_option(self, offset: int) -> None:
        if self._groups.is_at_start:
            raise self._source.error(
                offset, f'an alternative is empty before {self._source.found(offset)}; write "" for no text'
            )

    # Operators

    def _operator(self, offset: int) -> int:
        if not self._repeatable:
            remedy = (
                "put what is before it in parentheses" if not self._groups.is_at_start else "put something before it"
            )
            raise self._source.error(offset, f"{self._text[offset]!r} has nothing of its own to repeat; {remedy}")
        match self._text[offset]:
            case "*":
                least, most, end = 0, None, offset + 1
            case "+":
                least, most, end = 1, None, offset + 1
            case "?":
                least, most, end = 0, 1, offset + 1
            case _:
                least, most, end = self._counts(offset)
        body, depth = self._groups.take_last()
        position = self._source.position(offset)
        self._groups.add(EMPTY if most == 0 else Repeat(body, least, most, position), offset, depth + 1)
        self._repeatable = False
        return end

    def _counts(self, start: int) -> tuple[int, int | None, int]:
        """The bounds in `{n}`, `{n,}`, `{n,-1}` or `{n,m}`, and the offset after them."""
        form = "a repetition is written {n}, {n,} or {n,m}"
        offset = self._space(start + 1)
        first = _DIGITS.match(self._text, offset)
        if first is None:
            raise self._source.error(start, f"{form}; begin with a number, as in {{0,3}}")
        least = repetition_count(first.group(), self._source, offset)
        most: int | None = least
        offset = self._space(first.end())
        if self._text.startswith(",", offset):
            most, offset = self._upper_count(self._space(offset + 1))
        if not self._text.startswith("}", offset):
            raise self._source.error(start, f"{form}; close it with '}}'")
        if most is not None and most < least:
            raise self._source.error(start, f"the upper bound {most} is below the lower bound {least}; swap them")
        return least, most, offset + 1

    def _upper_count(self, offset: int) -> tuple[int | None, int]:
        second = _DIGITS.match(self._text, offset)
        if second is not None:
            return repetition_count(second.group(), self._source, offset), self._space(second.end())
        unbounded = NAME.match(self._text, offset)
        if unbounded is not None and unbounded.group() == "-1":
            offset = unbounded.end()
        return None, self._space(offset)
