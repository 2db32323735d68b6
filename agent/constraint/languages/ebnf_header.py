"""What stands before a rule's body in XGrammar's EBNF: its name and, in brackets, its options.

`capture`, `stop_capture` and the numbers beside them mark text for a caller that asks XGrammar for it: they change no
language and are dropped. `lazy` is honoured, `max_chars` where the shape of the rule tells how long its texts can be.
`max_tokens` and `temperature` change no language either; they are kept beside the rules (see `RuleOptions`).
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from agent.constraint.errors import GrammarError
from agent.constraint.languages.definition_sign import missing_sign
from agent.constraint.languages.ebnf_lengths import at_most
from agent.constraint.languages.source import Source
from agent.constraint.tree import (
    Node,
    RuleOptions,
    Shortest,
    references,
)

NAME = re.compile(r"[a-zA-Z_.-][a-zA-Z0-9_.-]*")
_BRACKETS = r'\[((?:[^\]"\r\n]|"[^"\r\n\\]*")*)\][ \t]*'
_OPTIONS = re.compile(_BRACKETS + "(?=::=)")
_NAME_AND_BRACKETS = re.compile(f"{NAME.pattern}(?:{_BRACKETS})?")
_OPTION = re.compile(r'[ \t]*([a-z_]+)[ \t]*(?:=[ \t]*("[^"]*"|[-+.0-9eE]+))?[ \t]*(,|$)')
_MOST = 2**31 - 1

_NUMBERED = ("capture_hidden_suffix_bytes", "capture_hidden_stop_bytes")
_IDENTIFIED = ("capture_hidden_body_rule_id", "capture_hidden_marker_rule_id")


class _Option(NamedTuple):
    value: str | None
    offset: int


@dataclass(frozen=True, slots=True)
class Header:
    """`end`: the offset after `::=`."""

    name: str
    options: Mapping[str, _Option]
    offset: int
    end: int


def read_header(source: Source, offset: int, space: Callable[[int], int]) -> Header | None:
    """The header at `offset`; None: no rule begins there. Raises GrammarError for options that are not known.

    Brackets right after the name are options if `::=` follows them on the same line, else a character class.
    """
    name = NAME.match(source.text, offset)
    if name is None or name.group() in ("true", "false"):
        return None
    end = name.end()
    options: Mapping[str, _Option] = {}
    bracket = _OPTIONS.match(source.text, end) if source.text.startswith("[", end) else None
    if bracket is not None:
        options = _read_options(source, bracket.start(1), bracket.end(1))
        end = bracket.end()
    end = space(end)
    if not source.text.startswith("::=", end):
        return None
    return Header(name.group(), options, offset, end + 3)


def no_header(source: Source, offset: int, space: Callable[[int], int]) -> GrammarError:
    """Why none is at `offset`, where one must be."""
    name = _NAME_AND_BRACKETS.match(source.text, offset)
    if name is None or name.group() in ("true", "false"):
        return source.error(offset, f"a rule, name ::= body, must begin here, not {source.found(offset)}")
    end = space(name.end())
    return source.error(end, missing_sign(source.text, end))


def with_options(rules: Mapping[str, Node], header: Header, optioned: Collection[str], source: Source) -> Node:
    """The body of the header's rule as its options change it. `optioned`: the rules that have `max_tokens` or
    `temperature`. Raises GrammarError where that cannot be done."""
    body = rules[header.name]
    max_chars = header.options.get("max_chars")
    if max_chars is not None:
        limited = at_most(body, int(max_chars.value or ""), rules)
        if limited is None:
            raise source.error(
                max_chars.offset,
                "max_chars is supported only where one repetition of parts of fixed length sets the rule's length; "
                "write {0,n} instead",
            )
        if limited is not body and any(name in optioned for name in _inner_rules(rules, body)):
            raise source.error(
                max_chars.offset,
                "max_chars cannot be kept around a rule with max_tokens or temperature; take one of them away",
            )
        body = limited
    return Shortest(body, source.position(header.offset)) if "lazy" in header.options else body


def _inner_rules(rules: Mapping[str, Node], body: Node) -> Iterable[str]:
    found: set[str] = set()
    pending = [body]
    while pending:
        news = set(references(pending.pop())) - found
        found |= news
        pending.extend(rules[name] for name in news)
    return found


def rule_options(header: Header) -> RuleOptions | None:
    """What the header asks for besides a language; None: nothing."""
    max_tokens, temperature = header.options.get("max_tokens"), header.options.get("temperature")
    if max_tokens is None and temperature is None:
        return None
    return RuleOptions(
        None if max_tokens is None else int(max_tokens.value or ""),
        None if temperature is None else float(temperature.value or ""),
    )


def _read_options(source: Source, offset: int, end: int) -> dict[str, _Option]:
    options: dict[str, _Option] = {}
    while True:
        found = _OPTION.match(source.text, offset, end)
        if found is None:
            raise source.error(offset, "a rule option is written name or name=value, with commas between")
        name = found.group(1)
        options_error = _refusal(name, found.group(2))
        if name in options:
            options_error = f"the option {name} is given twice; remove one"
        if options_error is not None:
            raise source.error(found.start(1), options_error)
        options[name] = _Option(found.group(2), found.start(1))
        offset = found.end()
        if not found.group(3):
            return options


def _refusal(name: str, value: str | None) -> str | None:
    """Why the option is refused; None: it is not."""
    match name:
        case "max_tokens":
            is_number = _is_count(value) and int(value or "") > 0
            return None if is_number else f"max_tokens takes a number from 1 to {_MOST}"
        case "temperature":
            return None if _is_temperature(value) else "temperature takes a number from 0 on, as in temperature=0.7"
        case "lazy":
            return None if value is None else "lazy takes no value"
        case "capture" | "stop_capture":
            is_named = value is not None and value.startswith('"') and value != '""'
            return None if is_named or (name == "capture" and value is None) else f'{name} takes a name: {name}="x"'
        case "max_chars":
            return None if _is_count(value) else f"max_chars takes a number up to {_MOST}"
        case _ if name in (*_NUMBERED, *_IDENTIFIED):
            return None if value is not None and value.isdecimal() else f"{name} takes a number"
        case _:
            return "this rule option is not known; there are max_tokens, max_chars, temperature, lazy and capture"


def _is_count(value: str | None) -> bool:
    return value is not None and value.isascii() and value.isdecimal() and len(value) < 11 and int(value) <= _MOST


def _is_temperature(value: str | None) -> bool:
    try:
        number = float(value or "")
    except ValueError:
        return False
    return math.isfinite(number) and number >= 0
