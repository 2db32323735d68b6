"""Builds alternatives of sequences in nested groups, without recursion: what all three notations have in common."""

from dataclasses import dataclass, field, replace

from agent.constraint.languages.source import MAX_DEPTH, MAX_NESTING, MAX_PIECES, Source
from agent.constraint.tree import EMPTY, Choice, Node, Repeat, Sequence, Shortest, Text


@dataclass(slots=True)
class OpenGroup:
    """A group whose end was not seen yet. `depth` is how many nodes deep its deepest part is; see Groups.add."""

    offset: int
    options: list[Node] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    deepest: int = 0


class Groups:
    """The open groups; the outermost is a whole body. One object reads one text, so that its pieces are counted."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._open = [OpenGroup(0)]
        self._pieces = 0

    # What is written

    def begin(self, offset: int) -> None:
        """A body begins; the one before was closed."""
        self._open = [OpenGroup(offset)]

    def open(self, offset: int) -> None:
        """Raises GrammarError beyond MAX_NESTING."""
        if len(self._open) > MAX_NESTING:
            raise self._source.error(offset, f"groups are nested over {MAX_NESTING} deep; use fewer")
        self._open.append(OpenGroup(offset))
        self._count(offset)

    def add(self, node: Node, offset: int, depth: int = 1) -> None:
        """Appends to the innermost sequence. `depth`: of the node, itself included. Raises GrammarError."""
        self._count(offset)
        if depth > MAX_DEPTH:
            raise self._source.error(offset, "too many operators follow each other; one is enough")
        self.innermost.parts.append(node)
        self.innermost.depths.append(depth)

    def take_last(self) -> tuple[Node, int]:
        """Takes the last part of the innermost sequence back, to put an operator around it; and its depth."""
        return self.innermost.parts.pop(), self.innermost.depths.pop()

    def bar(self) -> None:
        """An alternative ends and another begins."""
        _end_option(self.innermost)

    def close(self) -> tuple[Node, OpenGroup, int]:
        """Ends the innermost group: its node, what it was, and its depth. Does not add it to the outer one."""
        group = self._open.pop()
        _end_option(group)
        position = self._source.position(group.offset)
        node = group.options[0] if len(group.options) == 1 else Choice(tuple(group.options), position)
        return node, group, group.deepest + 2

    # Questions

    @property
    def innermost(self) -> OpenGroup:
        return self._open[-1]

    @property
    def nesting(self) -> int:
        """0: outside all groups."""
        return len(self._open) - 1

    @property
    def is_at_start(self) -> bool:
        """Whether the innermost sequence has no part yet."""
        return not self.innermost.parts

    def _count(self, offset: int) -> None:
        self._pieces += 1
        if self._pieces > MAX_PIECES:
            raise self._source.error(
                offset, f"there are over {MAX_PIECES} literals, classes and groups; make it smaller"
            )


def depth_of(node: Node) -> int:
    """How many nodes deep it is, itself included."""
    deepest, pending = 1, [(node, 1)]
    while pending:
        current, depth = pending.pop()
        deepest = max(deepest, depth)
        match current:
            case Sequence(parts):
                pending += [(part, depth + 1) for part in parts]
            case Choice(options):
                pending += [(option, depth + 1) for option in options]
            case Repeat(body) | Shortest(body):
                pending.append((body, depth + 1))
            case _:
                pass
    return deepest


def _end_option(group: OpenGroup) -> None:
    group.options.append(_sequence(group.parts))
    group.deepest = max(group.deepest, *group.depths, 0)
    group.parts, group.depths = [], []


def _sequence(parts: list[Node]) -> Node:
    """One part stands for itself, and literals that follow each other are one."""
    joined: list[Node] = []
    run: list[Text] = []
    for part in parts:
        if isinstance(part, Text):
            run.append(part)
            continue
        if part == EMPTY:
            continue
        joined += _joined(run)
        run = []
        joined.append(part)
    joined += _joined(run)
    if not joined:
        return EMPTY
    return joined[0] if len(joined) == 1 else Sequence(tuple(joined), joined[0].position)


def _joined(run: list[Text]) -> list[Node]:
    if len(run) < 2:
        return list(run)
    return [replace(run[0], text="".join(text.text for text in run))]
