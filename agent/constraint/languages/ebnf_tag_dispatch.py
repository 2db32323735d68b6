"""TagDispatch: free text until a tag is complete, then the tag's rule, then free text again."""

from dataclasses import dataclass

from agent.constraint.languages.source import Source
from agent.constraint.tree import Choice, FreeText, Node, Reference, Repeat, Sequence


@dataclass(frozen=True, slots=True)
class Dispatch:
    """`pairs`: tag and rule name. `excludes`: texts that free text must not hold. `loops`: whether it starts over."""

    pairs: tuple[tuple[str, str], ...]
    excludes: tuple[str, ...]
    loops: bool


def tag_dispatch(dispatch: Dispatch, source: Source, offset: int) -> Node:
    """The tree. Free text may end in an unfinished tag. Raises GrammarError for a tag that can never be reached."""
    position = source.position(offset)
    rules: dict[str, list[Node]] = {}
    for tag, rule in dispatch.pairs:
        rules.setdefault(tag, []).append(Reference(rule, position))
    _refuse_unreachable(tuple(rules), dispatch.excludes, source, offset)
    options: list[Node] = []
    for tag, targets in rules.items():
        avoid = (*(other for other in rules if other != tag), *dispatch.excludes)
        target = targets[0] if len(targets) == 1 else Choice(tuple(targets), position)
        options.append(Sequence((FreeText(avoid, tag, position), target), position))
    free = FreeText((*rules, *dispatch.excludes), None, position)
    if not options:
        return free
    if not dispatch.loops:
        return Choice((free, *options), position)
    once = options[0] if len(options) == 1 else Choice(tuple(options), position)
    return Sequence((Repeat(once, 0, None, position), free), position)


def _refuse_unreachable(tags: tuple[str, ...], excludes: tuple[str, ...], source: Source, offset: int) -> None:
    for tag in tags:
        if any(other in tag for other in tags if other != tag):
            raise source.error(offset, "one tag contains another, so it can never be reached; keep the shorter one")
        if any(text in tag for text in excludes):
            raise source.error(
                offset, "a tag contains an excluded text, so it can never be reached; remove one of the two"
            )
