"""What a structural tag is made of: one value per format, each with its JSON pointer for later refusals.

The formats are those of XGrammar's structural tags, and mean what its documentation says. The optional, starred and
counted forms of a format are one value here (`Repeated`), as are one and many tokens (`OtherTokens`).
"""

from dataclasses import dataclass
from typing import Any

TokenReference = int | str
"""A token by its number in the vocabulary or by its spelling."""


@dataclass(frozen=True, slots=True)
class Constant:
    path: str
    value: str


@dataclass(frozen=True, slots=True)
class Schema:
    """`path` is the schema's own. `style`: how the document is written; "json" or an XML style."""

    path: str
    schema: Any
    style: str


@dataclass(frozen=True, slots=True)
class EbnfText:
    path: str
    grammar: str


@dataclass(frozen=True, slots=True)
class RegexText:
    path: str
    pattern: str


@dataclass(frozen=True, slots=True)
class AnyText:
    path: str
    excludes: tuple[str, ...]
    max_characters: int | None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class InOrder:
    path: str
    elements: "tuple[Format, ...]"


@dataclass(frozen=True, slots=True)
class OneOf:
    path: str
    elements: "tuple[Format, ...]"


@dataclass(frozen=True, slots=True)
class Repeated:
    """`most` None: no upper bound."""

    path: str
    content: "Format"
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Tag:
    """`ends`: any one of these strings ends it, of which one may be empty; or a token does."""

    path: str
    begin: "str | OneToken"
    content: "Format"
    ends: "tuple[str, ...] | OneToken"


@dataclass(frozen=True, slots=True)
class TriggeredTags:
    path: str
    triggers: tuple[str, ...]
    tags: tuple[Tag, ...]
    excludes: tuple[str, ...]
    at_least_one: bool
    stop_after_first: bool


@dataclass(frozen=True, slots=True)
class SeparatedTags:
    path: str
    tags: tuple[Tag, ...]
    separator: str
    at_least_one: bool
    stop_after_first: bool


@dataclass(frozen=True, slots=True)
class Dispatch:
    path: str
    rules: "tuple[tuple[str, Format], ...]"
    excludes: tuple[str, ...]
    loop: bool


@dataclass(frozen=True, slots=True)
class OneToken:
    path: str
    token: TokenReference


@dataclass(frozen=True, slots=True)
class OtherTokens:
    """`least` to `most` tokens, none of which is one of `excludes`."""

    path: str
    excludes: tuple[TokenReference, ...]
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class TokenTriggeredTags:
    path: str
    triggers: tuple[TokenReference, ...]
    tags: tuple[Tag, ...]
    excludes: tuple[TokenReference, ...]
    at_least_one: bool
    stop_after_first: bool


@dataclass(frozen=True, slots=True)
class TokenDispatch:
    path: str
    rules: "tuple[tuple[TokenReference, Format], ...]"
    excludes: tuple[TokenReference, ...]
    loop: bool


Format = (
    Constant
    | Schema
    | EbnfText
    | RegexText
    | AnyText
    | InOrder
    | OneOf
    | Repeated
    | Tag
    | TriggeredTags
    | SeparatedTags
    | Dispatch
    | OneToken
    | OtherTokens
    | TokenTriggeredTags
    | TokenDispatch
)


def swallows_what_follows(found: Format) -> bool:
    """Whether the format may go on for ever over any text (or any tokens), and nothing says what ends it."""
    match found:
        case AnyText(_, excludes, most_characters, most_tokens):
            return not excludes and most_characters is None and most_tokens is None
        case OtherTokens(_, excludes, _, most):
            return not excludes and most is None
        case TriggeredTags() | TokenTriggeredTags():
            return not found.excludes and not (found.at_least_one and found.stop_after_first)
        case Dispatch() | TokenDispatch():
            return not found.excludes
        case InOrder(_, elements):
            return swallows_what_follows(elements[-1])
        case OneOf(_, elements):
            return any(swallows_what_follows(element) for element in elements)
        case Repeated(_, content):
            return swallows_what_follows(content)
        case _:
            return False
