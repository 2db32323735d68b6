"""Left recursion as GBNF forbids it: a rule that, before it matches anything, refers to itself.

llama.cpp refuses it in rules that are never used, too, and so do we. What stands behind something that *may* be empty
(`x ::= "a"? x | "b"`) is not counted, although llama.cpp counts it in some spellings: the language is clear.
"""

from collections.abc import Iterator, Mapping

from agent.constraint.languages.source import Source
from agent.constraint.tree import Choice, Node, Reference, Repeat, Sequence

_SHOWN_RULES = 8


def refuse_left_recursion(rules: Mapping[str, Node], source: Source, defined_at: Mapping[str, int]) -> None:
    """Raises GrammarError that names the rules of the first cycle. All references must be defined."""
    first = {name: list(_leftmost(body)) for name, body in rules.items()}
    finished: set[str] = set()
    for start in rules:
        path = {start: None}
        pending = [iter(() if start in finished else first[start])]
        while pending:
            reference = next(pending[-1], None)
            if reference is None:
                pending.pop()
                finished.add(path.popitem()[0])
            elif reference in path:
                names = list(path)
                cycle = names[names.index(reference) :]
                raise source.error(defined_at[cycle[0]], _sentence([*cycle, cycle[0]]))
            elif reference not in finished:
                path[reference] = None
                pending.append(iter(first[reference]))


def _leftmost(node: Node) -> Iterator[str]:
    """The rules that the node refers to before anything else, each once for each place."""
    pending = [node]
    while pending:
        match pending.pop():
            case Reference(name):
                yield name
            case Sequence(parts) if parts:
                pending.append(parts[0])
            case Choice(options):
                pending += reversed(options)
            case Repeat(body):
                pending.append(body)
            case _:
                pass


def _sentence(cycle: list[str]) -> str:
    shown = " -> ".join(cycle if len(cycle) <= _SHOWN_RULES else [*cycle[:_SHOWN_RULES], "..."])
    return (
        f"the rule {cycle[0]!r} is left-recursive ({shown}), which GBNF does not allow; "
        "write a repetition instead, or send the grammar as ebnf"
    )
