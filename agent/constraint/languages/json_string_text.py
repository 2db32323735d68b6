"""A regular expression's texts as far as they can stand between the quotes of a JSON string as they are."""

from dataclasses import replace

from agent.constraint.languages.code_points import code_points, without
from agent.constraint.tree import CharacterClass, Choice, Node, Repeat, Sequence, Text

_NEEDS_ESCAPE = code_points([(0x00, 0x1F), (ord('"'), ord('"')), (ord("\\"), ord("\\"))])
"""RFC 8259, section 7: quotation mark, reverse solidus, and the control characters."""


def without_escapes(node: Node) -> Node:
    """The texts of `node`, which a regular expression was parsed into, that hold no character JSON must escape.

    As XGrammar does for `json_string=true`: character by character, so a literal that holds one matches nothing.
    """
    match node:
        case Text(text, position):
            is_plain = all(character >= " " and character not in '"\\' for character in text)
            return node if is_plain else CharacterClass((), position)
        case CharacterClass(ranges):
            return replace(node, ranges=without(ranges, _NEEDS_ESCAPE))
        case Sequence(parts):
            return replace(node, parts=tuple(without_escapes(part) for part in parts))
        case Choice(options):
            return replace(node, options=tuple(without_escapes(option) for option in options))
        case Repeat(body):
            return replace(node, body=without_escapes(body))
        case _:
            raise ValueError(f"no part of a regular expression: {type(node).__name__}")
