"""Writes regular nodes as Lark terminals: one regex where the node is plain, an expression over terminals where not.

Invalid UTF-8 stays out: a complement (`~`) admits it, so each stands beside a regex of whole characters (`&`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.constraint.lark.regex_text import (
    ANY_TEXT,
    ANY_TEXT_BUT_NONE,
    class_text,
    count_text,
    literal_text,
)
from agent.constraint.tree import (
    CharacterClass,
    Choice,
    FreeText,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    SubstringOf,
    Text,
)

MAX_INLINED_CHARACTERS = 300
MAX_GROUP_DEPTH = 30
"""llguidance reads fewer than 100 levels of parentheses in a rule, and some 200 in a regex."""
MAX_ITEMS = 400


@dataclass(frozen=True, slots=True)
class Written:
    """Text of a node, as a regex or as a Lark expression; `is_atom`: it may be repeated or joined as it stands."""

    text: str
    is_regex: bool
    is_choice: bool
    is_atom: bool
    depth: int = 0

    def as_lark(self) -> str:
        """As an element of a Lark sequence."""
        if self.is_regex:
            return f"/{self.text}/"
        return self.text if self.is_atom else f"({self.text})"

    def as_regex_part(self) -> str:
        """As an element of a regex sequence."""
        return f"(?:{self.text})" if self.is_choice else self.text


class TerminalWriter:
    """Collects definitions in `lines`; what a definition refers to stands before it."""

    def __init__(self, rules: Mapping[str, Node]) -> None:
        """`rules` are the regular rules, leaves first."""
        self.lines: list[str] = []
        self._numbers = 0
        self._rules: dict[str, Written] = {}
        self._named: dict[Node, Written] = {}
        self._unread = iter(rules.items())
        self._all_rules = rules

    def define(self, name: str, node: Node, *, is_nullable: bool) -> None:
        """The terminal `name` matches the non-empty strings of the node."""
        sharper = _without_empty(node) if is_nullable else node
        written = self._written(node if sharper is None else sharper)
        suffix = f" & /{ANY_TEXT_BUT_NONE}/" if sharper is None else ""
        self.lines.append(f"{name}: {written.as_lark()}{suffix}")

    def _written(self, node: Node) -> Written:
        match node:
            case CharacterClass(ranges):
                return Written(class_text(ranges), True, False, True)
            case Text(text):
                return Written(literal_text(text), True, False, False)
            case Reference(name):
                return self._rule(name)
            case Sequence(parts):
                return self._sequence(parts)
            case Choice(options):
                return self._choice(options)
            case Repeat(body, least, most):
                return self._repeat(self._written(body), count_text(least, most))
            case FreeText() | Shortest() | SubstringOf():
                return self._special(node)
            case _:
                raise AssertionError(f"{type(node).__name__} is no text")

    def _rule(self, name: str) -> Written:
        """Rules are written leaves first, each once, so that nobody recurses through a chain of them."""
        while name not in self._rules:
            known, body = next(self._unread)
            written = self._written(body)
            if len(written.text) > MAX_INLINED_CHARACTERS:
                written = self._name(written.as_lark())
            self._rules[known] = written
        return self._rules[name]

    def _name(self, definition: str) -> Written:
        self._numbers += 1
        name = f"X{self._numbers}"
        self.lines.append(f"{name}: {definition}")
        return Written(name, False, False, True)

    def _bounded(self, written: Written) -> Written:
        return self._name(written.as_lark()) if written.depth > MAX_GROUP_DEPTH else written

    def _sequence(self, parts: Iterable[Node]) -> Written:
        written = [self._written(part) for part in parts]
        if not written:
            return Written("(?:)", True, False, True)
        depth = 1 + max(part.depth for part in written)
        joined: list[Written] = []
        for part in written:
            if part.is_regex and joined and joined[-1].is_regex:
                text = joined[-1].text + part.as_regex_part()
                joined[-1] = Written(text, True, False, False)
            elif part.is_regex:
                joined.append(Written(part.as_regex_part(), True, False, False))
            else:
                joined.append(part)
        if len(joined) == 1:
            return self._bounded(Written(joined[0].text, joined[0].is_regex, False, False, depth))
        texts = self._grouped([part.as_lark() for part in joined], " ")
        return self._bounded(Written(" ".join(texts), False, False, False, depth))

    def _choice(self, options: Iterable[Node]) -> Written:
        written = [self._written(option) for option in options]
        depth = 1 + max(option.depth for option in written)
        if all(option.is_regex for option in written):
            return self._bounded(Written("|".join(option.text for option in written), True, True, False, depth))
        plain = [option.text for option in written if option.is_regex]
        texts = [option.as_lark() for option in written if not option.is_regex]
        if plain:
            texts.insert(0, f"/{'|'.join(plain)}/")
        return self._bounded(Written(" | ".join(self._grouped(texts, " | ")), False, True, False, depth))

    def _grouped(self, texts: list[str], separator: str) -> list[str]:
        """The library takes 65,000 symbols a rule at most."""
        while len(texts) > MAX_ITEMS:
            starts = range(0, len(texts), MAX_ITEMS)
            texts = [self._name(separator.join(texts[start : start + MAX_ITEMS])).text for start in starts]
        return texts

    def _repeat(self, body: Written, count: str) -> Written:
        if body.is_regex:
            text = body.text if body.is_atom else f"(?:{body.text})"
            return self._bounded(Written(text + count, True, False, False, body.depth + 1))
        return self._bounded(Written(body.as_lark() + count, False, False, False, body.depth + 1))

    def _special(self, node: FreeText | Shortest | SubstringOf) -> Written:
        if node not in self._named:
            match node:
                case FreeText(avoid, until):
                    definition = _free_text(avoid, until)
                case Shortest(body):
                    whole = self._name(self._written(body).as_lark()).text
                    definition = f"{whole} & ~({whole} /{ANY_TEXT_BUT_NONE}/)"
                case SubstringOf(chunks):
                    definition = f'%regex {{"substring_chunks": {json.dumps([c for c in chunks if c])}}}'
            self._named[node] = self._name(definition)
        return self._named[node]


def _free_text(avoid: tuple[str, ...], until: str | None) -> str:
    parts = [f"/{ANY_TEXT}{'' if until is None else literal_text(until)}/"]
    if until is not None:
        parts.append(f"~(/{ANY_TEXT}{literal_text(until)}{ANY_TEXT_BUT_NONE}/)")
    if avoid:
        either = "|".join(map(literal_text, avoid))
        parts.append(f"~(/{ANY_TEXT}(?:{either}){ANY_TEXT}/)")
    return " & ".join(parts)


def _without_empty(node: Node) -> Node | None:
    """A node for the non-empty strings of one that matches the empty one; None: only a conjunction says it."""
    match node:
        case Repeat(CharacterClass() | Text() as body, 0, most):
            return body if most == 1 else Repeat(body, 1, most)
        case _:
            return None
