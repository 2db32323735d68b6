"""Free text, or free tokens, in which certain strings or tokens commit to what must follow them."""

from dataclasses import dataclass

from agent.constraint.structural_tag.fields import quoted, refusal
from agent.constraint.structural_tag.text import choice, free_text, one_of_texts, text_until, text_until_any
from agent.constraint.tree import Node, Repeat, Sequence, TokenSet


@dataclass(frozen=True, slots=True)
class TextDispatch:
    """`arms`: a trigger and what follows it. `excludes`: what the free text never holds. `ends`: how the tag around it
    ends. `loop`: whether free text goes on after an arm."""

    path: str
    arms: tuple[tuple[str, Node], ...]
    excludes: tuple[str, ...]
    ends: tuple[str, ...]
    loop: bool


def dispatch_on_text(how: TextDispatch, *, to_end: bool) -> Node:
    """The text, with `to_end` followed by one of the ends. Raises GrammarError where triggers and ends overlap."""
    triggers = tuple(trigger for trigger, _ in how.arms)
    refuse_overlap(triggers, how.ends, how.excludes, how.path)
    stops = (*triggers, *how.ends)
    arm = choice(
        Sequence((text_until(trigger, [stop for stop in stops if stop != trigger], how.excludes), after))
        for trigger, after in how.arms
    )
    if to_end:
        rest = text_until_any(how.ends, triggers, how.excludes, how.path)
    else:
        rest = free_text((*stops, *how.excludes))
    if how.loop:
        return Sequence((Repeat(arm, 0, None), rest))
    return choice((Sequence((arm, one_of_texts(how.ends))) if to_end else arm, rest))


def dispatch_on_tokens(arms: tuple[tuple[int, Node], ...], other: TokenSet, *, loop: bool) -> Node:
    """Tokens out of `other`, among which each arm's token commits to what follows it."""
    free = Repeat(other, 0, None)
    arm = choice(Sequence((TokenSet(frozenset((trigger,))), after)) for trigger, after in arms)
    return Sequence((free, Repeat(Sequence((arm, free)), 0, None) if loop else Repeat(arm, 0, 1)))


def refuse_overlap(triggers: tuple[str, ...], ends: tuple[str, ...], excludes: tuple[str, ...], path: str) -> None:
    """Free text commits at the first trigger or end that is complete, so none may be a part of another.

    Raises GrammarError naming two that overlap.
    """
    for trigger in triggers:
        if triggers.count(trigger) > 1:
            raise refusal(path, f'{quoted(trigger)} is there twice; join what follows it with "or"')
        if trigger in excludes:
            raise refusal(path, f"{quoted(trigger)} is a trigger and excluded; remove it from one of the lists")
        for other in triggers:
            if other != trigger and trigger in other:
                raise refusal(
                    path,
                    f"the trigger {quoted(trigger)} is a part of the trigger {quoted(other)}, which could then never "
                    "be reached; keep the shorter one, tags are told apart by what follows it",
                )
        for end in ends:
            if trigger in end or end in trigger:
                raise refusal(
                    path,
                    f"the trigger {quoted(trigger)} and the end {quoted(end)} of the tag around it overlap; "
                    "make one of them longer so that neither is a part of the other",
                )
