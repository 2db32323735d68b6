"""The format `any_text`: free text, also of at most so many characters or tokens."""

from agent.constraint.structural_tag.content import Contents
from agent.constraint.structural_tag.fields import below, quoted, refusal
from agent.constraint.structural_tag.formats import AnyText
from agent.constraint.structural_tag.text import free_text
from agent.constraint.tree import EMPTY, CharacterClass, Node, Repeat, RuleOptions

_ANY_CHARACTER = CharacterClass(((0, 0xD7FF), (0xE000, 0x10FFFF)))


def any_text(found: AnyText, ends: tuple[str, ...], contents: Contents) -> Node:
    """The text alone, in which none of `ends` stands; what comes behind it is the caller's. Raises GrammarError."""
    if found.max_tokens is not None:
        _refuse_overlap(found, ends)
    if found.max_tokens == 0:
        return EMPTY
    text = _of_characters(found, ends)
    return text if found.max_tokens is None else contents.shared(text, RuleOptions(max_tokens=found.max_tokens))


def _of_characters(found: AnyText, ends: tuple[str, ...]) -> Node:
    if found.max_characters is None:
        return free_text((*found.excludes, *ends))
    if found.excludes or ends:
        raise refusal(
            below(found.path, "max_chars"),
            "cannot be kept for text that also looks for an end or for excludes; remove it, "
            'or use a regex such as "[^<]{0,100}"',
        )
    return Repeat(_ANY_CHARACTER, 0, found.max_characters)


def _refuse_overlap(found: AnyText, ends: tuple[str, ...]) -> None:
    """A bounded text is a rule of its own, so it is not seen together with the end behind it: `x\\n` and then the end
    `\\n\\n` would hold that end one character too early."""
    for marker in (*ends, *found.excludes):
        for end in ends:
            if any(end.startswith(marker[at:]) or marker.startswith(end, at) for at in range(1, len(marker))):
                raise refusal(
                    below(found.path, "max_tokens"),
                    f"cannot be kept before the end {quoted(end)}, which may begin inside {quoted(marker)}; "
                    "use another end, or leave out max_tokens",
                )
