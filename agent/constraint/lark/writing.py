"""From a tree to the text of an llguidance Lark grammar with exactly the same language, made to be matched quickly.

The stages: `checks` (names, emptiness, sizes), `pieces` (regular parts become terminals), `lexing_proof` (terminals
that the greedy lexer would get wrong are opened), and writing. All names are generated, all characters are escapes, so
nothing that a client writes is ever read as Lark.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.constraint.errors import GrammarError
from agent.constraint.json_schema import OPTIONS
from agent.constraint.lark.alphabet import Alphabet, classes_in
from agent.constraint.lark.checks import checked
from agent.constraint.lark.json_starts import JSON_CLASSES
from agent.constraint.lark.lexing_proof import LexingProof
from agent.constraint.lark.pieces import Opaque, Pieces, cut
from agent.constraint.lark.regex_text import count_text
from agent.constraint.lark.regular import RegularTrees
from agent.constraint.lark.terminals import MAX_GROUP_DEPTH, MAX_ITEMS, TerminalWriter
from agent.constraint.tree import (
    Choice,
    Grammar,
    JsonDocument,
    Node,
    Reference,
    Repeat,
    Sequence,
    TokenSet,
)


class RegularTree(NamedTuple):
    """A grammar that is one terminal: its tree, and the rules that it refers to, in no circle."""

    node: Node
    rules: Mapping[str, Node]


def to_lark(grammar: Grammar, json_options: Mapping[str, Any] = OPTIONS) -> str:
    """The Lark grammar. `json_options` go as "x-guidance" into each JSON schema that is part of it.

    Sets of tokens name control tokens only (see control_tokens.resolve_tokens). Raises GrammarError for a grammar that
    cannot be honoured: an undefined rule, no string at all, sizes over the limits, or places where a JSON document or a
    set of tokens cannot be told apart from text.
    """
    return to_lark_and_tree(grammar, json_options)[0]


def to_lark_and_tree(grammar: Grammar, json_options: Mapping[str, Any] = OPTIONS) -> tuple[str, RegularTree | None]:
    """The Lark grammar, and its tree where it is a single regular one."""
    try:
        pieces = harmless_pieces(grammar)
        return lark_text(pieces, json_options), _only_tree(pieces)
    except RecursionError:
        raise GrammarError("parts are nested too deeply; name inner parts as rules") from None


def _only_tree(pieces: Pieces) -> RegularTree | None:
    if len(pieces.terminals) != 1 or len(pieces.rules) != 1 or pieces.opaque or _repeats(pieces):
        return None
    (node,) = pieces.terminals.values()
    return RegularTree(node, pieces.regular)


def harmless_pieces(grammar: Grammar) -> Pieces:
    """The grammar cut into terminals and rules that the greedy lexer reads right. Raises GrammarError."""
    pieces = cut(checked(grammar))
    if len(pieces.terminals) + len(pieces.opaque) > 1 or len(pieces.rules) > 1 or _repeats(pieces):
        nodes = (*pieces.terminals.values(), *pieces.regular.values())
        classes = {ranges for node in nodes for ranges in classes_in(node)}
        alphabet = Alphabet([*classes, *(JSON_CLASSES if _holds_json(pieces) else ())])
        LexingProof(pieces, RegularTrees(pieces.regular, alphabet), alphabet).make_harmless()
    return pieces


def _repeats(pieces: Pieces) -> bool:
    """Whether the one rule does more than use one symbol at most once."""
    expression = pieces.rules[pieces.root]
    if isinstance(expression, Repeat) and expression.most == 1:
        expression = expression.body
    return not isinstance(expression, Reference)


def _holds_json(pieces: Pieces) -> bool:
    return any(isinstance(symbol, JsonDocument) for symbol in pieces.opaque.values())


def lark_text(pieces: Pieces, json_options: Mapping[str, Any]) -> str:
    """The pieces, written down."""
    terminals = TerminalWriter(pieces.regular)
    names: dict[str, str] = {}
    for symbol, node in pieces.terminals.items():
        names[symbol] = f"T{symbol}"
        terminals.define(names[symbol], node, is_nullable=pieces.is_nullable(node))
    rules = _RuleWriter(names)
    for symbol, opaque in pieces.opaque.items():
        names[symbol] = f"o{symbol}"
        rules.lines.append(f"{names[symbol]}: {_opaque_text(opaque, json_options)}")
    names.update((symbol, f"r{symbol}") for symbol in pieces.rules)
    for symbol, expression in pieces.rules.items():
        rules.define(names[symbol], expression)
    return "\n".join([*terminals.lines, *rules.lines, f"start: {names[pieces.root]}", ""])


def _opaque_text(opaque: Opaque, json_options: Mapping[str, Any]) -> str:
    match opaque:
        case JsonDocument(schema):
            inner = dict(schema) if isinstance(schema, Mapping) else {} if schema is True else {"not": {}}
            return f"%json {json.dumps({**inner, 'x-guidance': dict(json_options)})}"
        case TokenSet(ids, negated):
            return f"<[{'^' if negated else ''}{','.join(map(str, sorted(ids)))}]>"
        case _:
            raise GrammarError(f"the token {opaque.name} is not resolved", opaque.position)


class _RuleWriter:
    """Writes expressions over named symbols, wide and deep ones as several rules."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self._names = names
        self._numbers = 0

    def define(self, name: str, expression: Node) -> None:
        text, _ = self._written(expression)
        self.lines.append(f"{name}: {text}")

    def _written(self, node: Node) -> tuple[str, int]:
        """The text, to be put into parentheses unless it is one name, and how deep its groups are."""
        match node:
            case Reference(symbol):
                return self._names[symbol], 0
            case Sequence(()):
                return '""', 0
            case Sequence(parts):
                return self._joined(parts, " ")
            case Choice(options):
                return self._joined(options, " | ")
            case Repeat(body, least, most):
                item, depth = self._item(body)
                return f"{item}{count_text(least, most)}", depth
            case _:
                raise AssertionError(f"{type(node).__name__} is no expression")

    def _joined(self, nodes: tuple[Node, ...], separator: str) -> tuple[str, int]:
        items = [self._item(node) for node in nodes]
        texts = [text for text, _ in items]
        while len(texts) > MAX_ITEMS:
            starts = range(0, len(texts), MAX_ITEMS)
            texts = [self._named(separator.join(texts[start : start + MAX_ITEMS])) for start in starts]
        return separator.join(texts), max(depth for _, depth in items)

    def _item(self, node: Node) -> tuple[str, int]:
        text, depth = self._written(node)
        if isinstance(node, Reference):
            return text, 0
        if depth >= MAX_GROUP_DEPTH:
            return self._named(text), 0
        return f"({text})", depth + 1

    def _named(self, text: str) -> str:
        self._numbers += 1
        self.lines.append(f"a{self._numbers}: {text}")
        return f"a{self._numbers}"
