"""Free text in structural tags: which stretch of text may run, and at which string it ends."""

from collections.abc import Iterable

from agent.constraint.structural_tag.fields import quoted, refusal
from agent.constraint.tree import Choice, FreeText, Node, Sequence, Text


def choice(options: Iterable[Node]) -> Node:
    """The one option, or any of several."""
    found = tuple(options)
    return found[0] if len(found) == 1 else Choice(found)


def one_of_texts(texts: Iterable[str]) -> Node:
    return choice(Text(text) for text in dict.fromkeys(texts))


def free_text(avoid: Iterable[str]) -> FreeText:
    """Text that contains none of `avoid`, and may stop in the middle of any."""
    return FreeText(_shortest(avoid))


def text_until(stop: str, others: Iterable[str], excludes: Iterable[str]) -> Node:
    """Text and then `stop`, at its first occurrence. Before it stands none of `others` and none of `excludes`.

    Where an exclude is a part of the stop itself it forbids that part in the text only, else nothing would match.
    """
    avoid = [text for text in (*others, *excludes) if text != stop]
    if any(text in stop for text in avoid):
        return Sequence((free_text([*avoid, stop]), Text(stop)))
    return FreeText(_shortest(avoid), stop)


def text_until_any(stops: Iterable[str], others: tuple[str, ...], excludes: tuple[str, ...], path: str) -> Node:
    """Text and then whichever of `stops` comes first. Raises GrammarError when one can never come first."""
    ends = _reachable(tuple(stops), path)
    return choice(text_until(end, (*others, *(e for e in ends if e != end)), excludes) for end in ends)


def _shortest(strings: Iterable[str]) -> tuple[str, ...]:
    """Without those that contain another one: text without the shorter one has no longer one either."""
    different = sorted(set(strings), key=lambda text: (len(text), text))
    return tuple(text for n, text in enumerate(different) if not any(short in text for short in different[:n]))


def _reachable(ends: tuple[str, ...], path: str) -> tuple[str, ...]:
    """Without ends that end with another one: text up to the shorter one covers them."""
    kept = _shortest(ends)
    for end in ends:
        for short in kept:
            if short in end[:-1]:
                raise refusal(
                    path, f"the end {quoted(end)} could never be reached, since the end {quoted(short)} comes before it"
                )
    return kept
