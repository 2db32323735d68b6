"""Writes a tree as GBNF, for judges that read nothing else."""

from agent.constraint.tree import (
    CharacterClass,
    Choice,
    CodePointRanges,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Text,
)


def gbnf_text(grammar: Grammar) -> str:
    """One line a rule. Raises ValueError for nodes that GBNF has no words for."""
    return "".join(f"{name} ::= {_text(body)}\n" for name, body in grammar.rules.items())


def _text(node: Node) -> str:
    match node:
        case Text(text):
            return f'"{"".join(map(_escaped, text))}"'
        case CharacterClass(ranges) if ranges:
            return f"[{_ranges(ranges)}]"
        case Sequence(parts):
            return f"({' '.join(map(_text, parts))})" if parts else '""'
        case Choice(options) if options:
            return f"({' | '.join(map(_text, options))})"
        case Repeat(body, least, most):
            return f"({_text(body)}){{{least},{'' if most is None else most}}}"
        case Reference(name):
            return name
        case _:
            raise ValueError(f"GBNF has no {type(node).__name__}")


def _ranges(ranges: CodePointRanges) -> str:
    return "".join(f"{_escaped(chr(first))}-{_escaped(chr(last))}" for first, last in ranges)


def _escaped(letter: str) -> str:
    return letter if letter.isascii() and letter.isalnum() else f"\\U{ord(letter):08X}"
