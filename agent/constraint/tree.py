"""The one form into which every grammar language is parsed: rules over code points, each with its place in the text.

A tree is a value and says what a language *is*; how it is matched is the back end's business. Code points are those of
Unicode without the surrogates (0xD800 to 0xDFFF), which no UTF-8 output can hold.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

LAST_CODE_POINT = 0x10FFFF
CodePointRanges = tuple[tuple[int, int], ...]
"""Inclusive ranges, sorted, disjoint and not adjacent, without surrogates."""


class Position(NamedTuple):
    """Where a piece stands in the text that the client sent; both counted from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Text:
    """Exactly these characters; empty text matches the empty string."""

    text: str
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """One code point out of the ranges; no range at all: matches nothing."""

    ranges: CodePointRanges
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Sequence:
    """The parts one after another; no part at all: the empty string."""

    parts: "tuple[Node, ...]"
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the options; no option at all: matches nothing."""

    options: "tuple[Node, ...]"
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Repeat:
    """The body `least` to `most` times (None: no upper bound)."""

    body: "Node"
    least: int
    most: int | None
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Reference:
    """What the rule of this name matches."""

    name: str
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FreeText:
    """Any text that contains none of `avoid`; with `until`: any such text and then `until`, at its first occurrence.

    In words of languages, with until: { w + until : w + until contains no string of `avoid`, and `until` only at its
    end }. This is how text up to a trigger, and text without one, is said.
    """

    avoid: tuple[str, ...] = ()
    until: str | None = None
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Shortest:
    """Those strings of a regular body that have no proper prefix in it: the shortest match."""

    body: "Node"
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SubstringOf:
    """Any run of consecutive chunks, the empty one included."""

    chunks: tuple[str, ...]
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TokenSet:
    """One token by its id, not by its text: one of `ids`, or with `negated` any other token."""

    ids: frozenset[int]
    negated: bool = False
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TokenNamed:
    """One control token, by its spelling in the vocabulary (`<|im_end|>`), or with `negated` any other token."""

    name: str
    negated: bool = False
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """Compact JSON text of a document that satisfies `schema`, which was checked and rewritten already."""

    schema: Any = field(hash=False)
    position: Position | None = field(default=None, compare=False)


Node = (
    Text
    | CharacterClass
    | Sequence
    | Choice
    | Repeat
    | Reference
    | FreeText
    | Shortest
    | SubstringOf
    | TokenSet
    | TokenNamed
    | JsonDocument
)


@dataclass(frozen=True, slots=True)
class EmbeddedSchema:
    """A JSON schema in a client's text: where it stands (a JSON pointer), as it was given, and as it was rewritten."""

    path: str
    given: str | dict[str, Any]
    prepared: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """What a rule asks for besides its language. `max_tokens`: from this many on an occurrence of it ends where it can.
    `temperature`: for tokens that are sampled while it is the innermost such rule that is open."""

    max_tokens: int | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules by name, and the one that describes the whole output. `options`: of rules that have some. `schemas`: those
    of its JSON documents."""

    rules: Mapping[str, Node]
    root: str
    options: Mapping[str, RuleOptions] = field(default_factory=dict)
    schemas: tuple[EmbeddedSchema, ...] = field(default=(), compare=False, repr=False)


NO_OPTIONS = RuleOptions()
EMPTY = Sequence(())
NOTHING = Choice(())


def references(node: Node) -> Iterable[str]:
    """The names of the rules that the node refers to, each as often as it does."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Reference):
            yield current.name
        else:
            stack.extend(children(current))


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly inside."""
    match node:
        case Sequence(parts):
            return parts
        case Choice(options):
            return options
        case Repeat(body) | Shortest(body):
            return (body,)
        case _:
            return ()


def nullable(node: Node, nullable_rules: Set[str]) -> bool:
    """Whether a regular node matches the empty string."""
    match node:
        case Reference(name):
            return name in nullable_rules
        case Sequence(parts):
            return all(nullable(part, nullable_rules) for part in parts)
        case Choice(options):
            return any(nullable(option, nullable_rules) for option in options)
        case Repeat(body, least):
            return least == 0 or nullable(body, nullable_rules)
        case Shortest(body):
            return nullable(body, nullable_rules)
        case FreeText(_, until):
            return until is None
        case _:
            return isinstance(node, SubstringOf)
