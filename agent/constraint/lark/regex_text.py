"""Writes regular trees in the regex syntax that llguidance reads: Rust's, every character as an escape.

No character has to be quoted or avoided then, whatever delimiters stand around the text.
"""

from agent.constraint.tree import CharacterClass, Choice, CodePointRanges, Node, Repeat, Sequence, Text

ANY_TEXT = "(?s:.*)"
ANY_TEXT_BUT_NONE = "(?s:.+)"


def class_text(ranges: CodePointRanges) -> str:
    """`[\\x{61}-\\x{7a}]`. The class has at least one character."""
    return f"[{''.join(_range_text(first, last) for first, last in ranges)}]"


def _range_text(first: int, last: int) -> str:
    return f"\\x{{{first:x}}}" if first == last else f"\\x{{{first:x}}}-\\x{{{last:x}}}"


def literal_text(text: str) -> str:
    """The characters, one after another."""
    return "".join(letter if letter.isascii() and letter.isalnum() else f"\\x{{{ord(letter):x}}}" for letter in text)


def count_text(least: int, most: int | None) -> str:
    """What stands behind a repeated body; not for {1,1} and {0,0}."""
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    if short is not None:
        return short
    if most is None:
        return f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def regex_text(node: Node) -> str:
    """The regex of a plain tree: characters, text, sequences, choices and repetitions.

    Raises ValueError for anything else. It is a whole: to be put into `(?:` and `)` where it becomes a part.
    """
    match node:
        case CharacterClass(ranges):
            return class_text(ranges) if ranges else "[^\\x{0}-\\x{10ffff}]"
        case Text(text):
            return literal_text(text)
        case Sequence(parts):
            return "".join(
                f"(?:{regex_text(part)})" if isinstance(part, Choice) else regex_text(part) for part in parts
            )
        case Choice(options):
            return "|".join(map(regex_text, options))
        case Repeat(body, least, most):
            return f"{_repeatable(body)}{count_text(least, most)}"
        case _:
            raise ValueError(f"{type(node).__name__} cannot be written as a regex")


def _repeatable(body: Node) -> str:
    if isinstance(body, CharacterClass):
        return regex_text(body)
    return f"(?:{regex_text(body)})"
