"""Strings that mark a tag and spell a control token: the model would write the token, which no string ever matches."""

from collections.abc import Iterator

from agent.constraint.structural_tag.fields import below
from agent.constraint.structural_tag.formats import (
    Dispatch,
    Format,
    InOrder,
    OneOf,
    Repeated,
    SeparatedTags,
    Tag,
    TokenDispatch,
    TokenTriggeredTags,
    TriggeredTags,
)
from agent.constraint.structural_tag.tokens import ControlTokens


def refuse_spelled_tokens(found: Format, tokens: ControlTokens) -> None:
    """Raises GrammarError with the pointer of a begin, an end or a trigger that is a control token's spelling."""
    for path, text in _marks(found):
        tokens.refuse_spelling(text, path)


def _marks(found: Format) -> Iterator[tuple[str, str]]:
    match found:
        case Tag(path, begin, content, ends):
            yield from ((below(path, "begin"), begin),) if isinstance(begin, str) else ()
            yield from ((below(path, "end"), end) for end in ends) if isinstance(ends, tuple) else ()
            yield from _marks(content)
        case TriggeredTags(path, triggers, tags):
            yield from ((below(path, "triggers"), trigger) for trigger in triggers)
            yield from _all_marks(tags)
        case SeparatedTags(_, tags) | TokenTriggeredTags(_, _, tags):
            yield from _all_marks(tags)
        case Dispatch(path, rules):
            yield from ((below(path, "rules"), trigger) for trigger, _ in rules)
            yield from _all_marks(tuple(rule for _, rule in rules))
        case TokenDispatch(_, rules):
            yield from _all_marks(tuple(rule for _, rule in rules))
        case InOrder(_, elements) | OneOf(_, elements):
            yield from _all_marks(elements)
        case Repeated(_, content):
            yield from _marks(content)
        case _:
            return


def _all_marks(formats: tuple[Format, ...]) -> Iterator[tuple[str, str]]:
    for one in formats:
        yield from _marks(one)
