"""Strings of a clause as one regular tree and as the keyword `pattern` that the library reads."""

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.clause import Strings
from agent.constraint.json_schema.patterns import ANY_TEXT
from agent.constraint.json_schema.text_sets import TextSet, any_text, writable
from agent.constraint.languages.code_points import EVERY_CODE_POINT, letters, without
from agent.constraint.lark.automaton import TooManyStates
from agent.constraint.lark.regex_text import regex_text
from agent.constraint.tree import NOTHING, CharacterClass, Choice, Node, Repeat, Sequence, Text

MAX_PATTERN_LENGTH_OUT = 100_000
# The library's regex reader (regex-syntax) stops at 250 levels of its own tree.
MAX_LEVELS_OUT = 230
MAX_EXCLUDED_LENGTH = 64


def text_node(strings: Strings, path: str) -> Node | None:
    """All demands on the text in one tree, lengths included; None: there is no demand. Raises SchemaError."""
    if strings == Strings():
        return None
    nodes = [pattern.node for pattern in strings.patterns]
    if strings.min_length or strings.max_length is not None:
        nodes.append(any_text(strings.min_length, strings.max_length))
    forbidden = forbidden_nodes(strings)
    if len(nodes) == 1 and not forbidden:
        return nodes[0]
    return combined(nodes, forbidden, path)


def forbidden_nodes(strings: Strings) -> list[Node]:
    nodes = [pattern.node for pattern in strings.not_patterns]
    if strings.excluded:
        nodes.append(Choice(tuple(map(Text, sorted(strings.excluded)))))
    return nodes


def required_nodes(strings: Strings, path: str) -> list[Node]:
    """Trees of which a text must match each, lengths left out. Raises SchemaError."""
    nodes = [pattern.node for pattern in strings.patterns]
    nodes.extend(combined([], [pattern.node], path) for pattern in strings.not_patterns)
    if strings.excluded:
        nodes.append(none_of_texts(strings.excluded, path))
    return nodes


def none_of_texts(texts: frozenset[str], path: str) -> Node:
    """All texts but these, as a tree that follows their letters. Raises SchemaError."""
    if max(map(len, texts)) > MAX_EXCLUDED_LENGTH:
        raise SchemaError(f"a text longer than {MAX_EXCLUDED_LENGTH} characters cannot be excluded", path)
    by_letter: dict[str, set[str]] = {}
    for text in texts:
        if text:
            by_letter.setdefault(text[0], set()).add(text[1:])
    others = CharacterClass(without(EVERY_CODE_POINT, letters("".join(by_letter))))
    options: list[Node] = [] if "" in texts else [Text("")]
    options.append(Sequence((others, ANY_TEXT)))
    for letter, rests in sorted(by_letter.items()):
        options.append(Sequence((Text(letter), none_of_texts(frozenset(rests), path))))
    return Choice(tuple(options))


def combined(required: list[Node], forbidden: list[Node], path: str) -> Node:
    """Texts that are in all of the first and in none of the second. Raises SchemaError."""
    try:
        return TextSet(required, forbidden).node()
    except TooManyStates:
        raise SchemaError("what the text must not be is too large to write out; simplify the patterns", path) from None


def pattern_text(node: Node, path: str) -> str | None:
    """The tree as a whole pattern in the library's dialect; None: JSON can hold none of its texts.

    Control characters without a short escape are taken out: the library writes none, and a class that holds them
    admits escapes of characters that are not in it. Raises SchemaError.
    """
    kept = writable(node)
    if kept == NOTHING:
        return None
    if levels(kept) > MAX_LEVELS_OUT:
        raise SchemaError("the pattern nests too deep once it is written out; simplify it", path)
    text = f"^(?:{regex_text(kept)})$"
    if len(text) > MAX_PATTERN_LENGTH_OUT:
        raise SchemaError("the pattern is too large; simplify it", path)
    return text


def levels(node: Node) -> int:
    """How deep the written regex nests, as its reader counts: groups, alternatives, sequences and repetitions."""
    match node:
        case Sequence(parts):
            return 1 + max(map(levels, parts), default=0)
        case Choice(options):
            return 2 + max(map(levels, options), default=0)
        case Repeat(body):
            return 2 + levels(body)
        case _:
            return 1
