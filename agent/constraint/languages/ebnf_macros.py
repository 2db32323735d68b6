"""The macros of XGrammar's EBNF: Regex, Substring, TagDispatch, Token and ExcludeToken."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from agent.constraint.languages.ebnf_header import NAME
from agent.constraint.languages.ebnf_tag_dispatch import Dispatch, tag_dispatch
from agent.constraint.languages.json_string_text import without_escapes
from agent.constraint.languages.regex import parse_regex
from agent.constraint.languages.regex_dialect import xgrammar_dialect
from agent.constraint.languages.source import InnerSource, Source
from agent.constraint.languages.spelling import Literal, Speller
from agent.constraint.tree import Node, SubstringOf, TokenSet

MACROS = frozenset(("Regex", "Substring", "TagDispatch", "Token", "ExcludeToken", "TokenTagDispatch"))

_INTEGER = re.compile(r"[0-9]+")
_LAST_TOKEN_ID = 2**31 - 1
_FLAGS = frozenset("isu")


@dataclass(frozen=True, slots=True)
class _RuleName:
    name: str


@dataclass(frozen=True, slots=True)
class _Argument:
    value: "Literal | _RuleName | int | bool | tuple[_Argument, ...]"
    offset: int


@dataclass(frozen=True, slots=True)
class _Call:
    """What was written after the macro's name, in parentheses; `offset` is where the name stands."""

    macro: str
    offset: int
    arguments: tuple[_Argument, ...]
    named: dict[str, _Argument]


class MacroReader:
    """Reads the macros of one text; `references` are the rules that they name, with the first place of each."""

    def __init__(self, source: Source, speller: Speller, space: Callable[[int], int]) -> None:
        self._source = source
        self._text = source.text
        self._speller = speller
        self._space = space
        self.references: dict[str, int] = {}

    def read(self, name: str, offset: int, end: int) -> tuple[Node, int]:
        """The macro whose name stands from `offset` to `end`, and the offset after it. Raises GrammarError."""
        call, end = self._call(name, offset, end)
        match name:
            case "Regex":
                return self._regex(call), end
            case "Substring":
                return self._substring(call), end
            case "TagDispatch":
                return self._tag_dispatch(call), end
            case "Token" | "ExcludeToken":
                return self._token(call), end
            case _:
                raise self._source.error(
                    offset, "TokenTagDispatch is not supported; use TagDispatch, or Token in a rule"
                )

    # Syntax

    def _call(self, name: str, start: int, offset: int) -> tuple[_Call, int]:
        offset = self._space(offset)
        if not self._text.startswith("(", offset):
            raise self._source.error(offset, f"{name} is a macro; its arguments in parentheses must follow")
        arguments: list[_Argument] = []
        named: dict[str, _Argument] = {}
        offset = self._space(offset + 1)
        while not (self._text.startswith(")", offset) and not arguments and not named):
            key = NAME.match(self._text, offset)
            after_key = offset if key is None else self._space(key.end())
            if key is not None and self._text.startswith("=", after_key):
                if key.group() in named:
                    raise self._source.error(offset, f"the argument {key.group()} is given twice; remove one")
                named[key.group()], offset = self._argument(self._space(after_key + 1), in_tuple=False)
            else:
                argument, offset = self._argument(offset, in_tuple=False)
                arguments.append(argument)
            offset = self._space(offset)
            if self._text.startswith(")", offset):
                break
            offset = self._after_comma(offset)
        return _Call(name, start, tuple(arguments), named), offset + 1

    def _argument(self, offset: int, in_tuple: bool) -> tuple[_Argument, int]:
        if self._text.startswith('"', offset):
            literal = self._speller.literal(offset)
            return _Argument(literal, offset), literal.end
        integer = _INTEGER.match(self._text, offset)
        if integer is not None:
            digits = integer.group().lstrip("0") or "0"
            if len(digits) > 10 or int(digits) > _LAST_TOKEN_ID:
                raise self._source.error(offset, "no vocabulary has a token with so large an id")
            return _Argument(int(digits), offset), integer.end()
        name = NAME.match(self._text, offset)
        if name is not None:
            if name.group() in ("true", "false"):
                return _Argument(name.group() == "true", offset), name.end()
            return _Argument(_RuleName(name.group()), offset), name.end()
        if self._text.startswith("(", offset) and not in_tuple:
            return self._tuple(offset)
        raise self._source.error(
            offset, "an argument is a text in quotes, a number, true, false, a rule name or a tuple"
        )

    def _tuple(self, start: int) -> tuple[_Argument, int]:
        elements: list[_Argument] = []
        offset = self._space(start + 1)
        while not self._text.startswith(")", offset):
            element, offset = self._argument(offset, in_tuple=True)
            elements.append(element)
            offset = self._space(offset)
            if not self._text.startswith(")", offset):
                offset = self._after_comma(offset)
        return _Argument(tuple(elements), start), offset + 1

    def _after_comma(self, offset: int) -> int:
        if not self._text.startswith(",", offset):
            raise self._source.error(offset, f"',' or ')' is missing before {self._source.found(offset)}")
        return self._space(offset + 1)

    # Meaning

    def _refuse_names(self, call: _Call, *known: str) -> None:
        for name, argument in call.named.items():
            if name not in known:
                there_are = f"there are {', '.join(known)}" if known else "remove it"
                raise self._source.error(argument.offset, f"{call.macro} has no argument of this name; {there_are}")

    def _text_of(self, argument: _Argument, call: _Call) -> Literal:
        if not isinstance(argument.value, Literal):
            raise self._source.error(argument.offset, f"{call.macro} takes a text in quotes here")
        return argument.value

    def _flag_of(self, call: _Call, name: str, default: bool) -> bool:
        argument = call.named.get(name)
        if argument is None:
            return default
        if not isinstance(argument.value, bool):
            raise self._source.error(argument.offset, f"{name} is true or false")
        return argument.value

    def _regex(self, call: _Call) -> Node:
        self._refuse_names(call, "flags", "json_string")
        if len(call.arguments) != 1:
            raise self._source.error(call.offset, "Regex takes one pattern")
        pattern = self._text_of(call.arguments[0], call)
        flags = None
        if "flags" in call.named:
            flags = self._text_of(call.named["flags"], call).text
            if set(flags) - _FLAGS:
                raise self._source.error(call.named["flags"].offset, "the flags are i, s and u")
        dialect = xgrammar_dialect(dot_takes_newline=flags is None or "s" in flags)
        inner = InnerSource(pattern.text, self._source, pattern.offsets)
        node = parse_regex(pattern.text, dialect, ignore_case="i" in (flags or ""), source=inner)
        return without_escapes(node) if self._flag_of(call, "json_string", False) else node

    def _substring(self, call: _Call) -> Node:
        self._refuse_names(call)
        chunks = tuple(self._text_of(argument, call).text for argument in call.arguments)
        return SubstringOf(chunks, self._source.position(call.offset))

    def _token(self, call: _Call) -> Node:
        self._refuse_names(call)
        ids = [argument.value for argument in call.arguments if type(argument.value) is int]
        if not ids or len(ids) < len(call.arguments):
            raise self._source.error(call.offset, f"{call.macro} takes one or more token ids, which are numbers from 0")
        return TokenSet(frozenset(ids), call.macro == "ExcludeToken", self._source.position(call.offset))

    def _tag_dispatch(self, call: _Call) -> Node:
        self._refuse_names(call, "loop_after_dispatch", "excludes")
        pairs: list[tuple[str, str]] = []
        for argument in call.arguments:
            if not isinstance(argument.value, tuple) or len(argument.value) != 2:
                raise self._source.error(argument.offset, 'TagDispatch takes pairs: ("tag", rule)')
            tag, rule = argument.value
            if not isinstance(rule.value, _RuleName):
                raise self._source.error(rule.offset, "the second of a pair is the name of a rule")
            self.references.setdefault(rule.value.name, rule.offset)
            pairs.append((self._tag(tag, call), rule.value.name))
        excludes: tuple[str, ...] = ()
        if "excludes" in call.named:
            listed = call.named["excludes"]
            if not isinstance(listed.value, tuple):
                raise self._source.error(listed.offset, 'excludes takes a tuple of texts: ("a", "b") or ("a",)')
            excludes = tuple(self._tag(element, call) for element in listed.value)
        loops = self._flag_of(call, "loop_after_dispatch", True)
        return tag_dispatch(Dispatch(tuple(pairs), excludes, loops), self._source, call.offset)

    def _tag(self, argument: _Argument, call: _Call) -> str:
        text = self._text_of(argument, call).text
        if not text:
            raise self._source.error(argument.offset, "this text cannot be empty")
        return text
