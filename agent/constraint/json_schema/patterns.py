"""The keyword `pattern`: ECMA-262, found anywhere in the text (2020-12 core, section 6.4), as a set of whole texts."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.constraint.errors import GrammarError, SchemaError
from agent.constraint.languages.code_points import EVERY_CODE_POINT
from agent.constraint.languages.regex import parse_regex
from agent.constraint.languages.regex_dialect import javascript_dialect
from agent.constraint.tree import CharacterClass, Choice, FreeText, Node, Repeat, Sequence, Text

MAX_PATTERN_CHARACTERS = 20_000
ANY_TEXT = Repeat(CharacterClass(EVERY_CODE_POINT), 0, None)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A set of texts. `text` is its identity: what the client wrote, or the name of a format.

    Not `exact`: some texts that the standard would take are missing, so the set cannot be turned around.
    """

    text: str
    node: Node = field(compare=False)
    exact: bool = field(compare=False, default=True)

    def matches(self, text: str) -> bool:
        return len(text) in _ends(self.node, text, {0})


@dataclass(frozen=True, slots=True)
class SignedPatterns:
    """What a text must match and must not match. Look-ahead at the beginning of a pattern makes more than one."""

    required: tuple[Pattern, ...]
    forbidden: tuple[Pattern, ...] = ()


def read_pattern(text: str, path: str) -> SignedPatterns:
    """The meaning of `pattern`. Look-ahead is known directly after a `^` that the pattern begins with.

    Raises SchemaError.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise SchemaError(f"the pattern has more than {MAX_PATTERN_CHARACTERS} characters", path)
    rest, required, forbidden = text, list[Pattern](), list[Pattern]()
    while rest.startswith(("^(?!", "^(?=")):
        end = _group_end(rest, 1)
        if end is None or rest[end : end + 1] in ("*", "+", "?", "{") or _has_option(rest[end:]):
            break  # what is wrong is said by the reader of the rest
        body = Pattern(rest[:end] + "\n", _read(f"^(?:{rest[4 : end - 1]})", path))
        (forbidden if rest[3] == "!" else required).append(body)
        rest = "^" + rest[end:]
    return SignedPatterns((Pattern(text, _read(rest, path)), *required), tuple(forbidden))


def _read(text: str, path: str) -> Node:
    try:
        return parse_regex(text, javascript_dialect(), is_search=True)
    except GrammarError as error:
        raise SchemaError(f"pattern, {error}", path) from None


def _group_end(text: str, start: int) -> int | None:
    """Behind the parenthesis that closes the group which opens at `start`."""
    depth = 0
    for at, letter in _plain_letters(text, start):
        if letter in "()":
            depth += 1 if letter == "(" else -1
            if depth == 0:
                return at + 1
    return None


def _has_option(text: str) -> bool:
    """Whether a `|` stands outside all groups: the look-ahead then belongs to the first alternative only."""
    depth = 0
    for _, letter in _plain_letters(text, 0):
        if letter in "()":
            depth += 1 if letter == "(" else -1
        elif letter == "|" and depth == 0:
            return True
    return False


def _plain_letters(text: str, start: int) -> Iterator[tuple[int, str]]:
    """The characters that are neither escaped nor in a character class, and where they stand."""
    in_class, at = False, start
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 1
        elif in_class:
            in_class = letter != "]"
        elif letter == "[":
            in_class = True
        else:
            yield at, letter
        at += 1


def _ends(node: Node, text: str, starts: set[int]) -> set[int]:
    """Where matches that begin at one of `starts` can end. Linear in the node for each place: nothing backtracks."""
    match node:
        case Text(literal):
            return {at + len(literal) for at in starts if text.startswith(literal, at)}
        case CharacterClass():
            return {at + 1 for at in starts if at < len(text) and _holds(node, ord(text[at]))}
        case Sequence(parts):
            for part in parts:
                starts = _ends(part, text, starts)
            return starts
        case Choice(options):
            return {end for option in options for end in _ends(option, text, starts)}
        case FreeText((), None):
            return set(range(min(starts, default=len(text) + 1), len(text) + 1))
        case Repeat(body, least, most):
            return _repeated_ends(body, least, most, text, starts)
        case _:
            raise ValueError(f"{type(node).__name__} is in no pattern")


def _repeated_ends(body: Node, least: int, most: int | None, text: str, starts: set[int]) -> set[int]:
    for _ in range(min(least, len(text) + 1)):
        starts = _ends(body, text, starts)
    reached, fresh, rounds = set(starts), starts, least
    while fresh and (most is None or rounds < most):
        fresh = _ends(body, text, fresh) - reached
        reached |= fresh
        rounds += 1
    return reached


def _holds(node: CharacterClass, code: int) -> bool:
    return any(low <= code <= high for low, high in node.ranges)
