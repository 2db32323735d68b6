"""From formats to rules: free text up to a trigger or an end, tags, repetitions, tokens.

Two questions are asked of each format: which rules say it (`lower`), and which say it followed by one of the ends of
the tag around it (`lower_to_end`). The second is not the first and then the end: free text stops at the first
occurrence of an end, so the end belongs to the text. As in XGrammar only the nearest tag's ends count.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from agent.constraint.structural_tag.bounded_text import any_text
from agent.constraint.structural_tag.content import Contents
from agent.constraint.structural_tag.dispatch import (
    TextDispatch,
    dispatch_on_text,
    dispatch_on_tokens,
    refuse_overlap,
)
from agent.constraint.structural_tag.fields import below, quoted, refusal
from agent.constraint.structural_tag.formats import (
    AnyText,
    Constant,
    Dispatch,
    EbnfText,
    Format,
    InOrder,
    OneOf,
    OneToken,
    OtherTokens,
    RegexText,
    Repeated,
    Schema,
    SeparatedTags,
    Tag,
    TokenDispatch,
    TokenTriggeredTags,
    TriggeredTags,
    swallows_what_follows,
)
from agent.constraint.structural_tag.text import (
    choice,
    one_of_texts,
    text_until_any,
)
from agent.constraint.structural_tag.tokens import ControlTokens
from agent.constraint.tree import (
    Node,
    Reference,
    Repeat,
    Sequence,
    Text,
    TokenSet,
)

_Trigger = TypeVar("_Trigger", str, int)
_NO_END = 'give it "excludes" that name what ends it, or put it into a tag of its own'


@dataclass(frozen=True, slots=True)
class Around:
    """How the nearest tag around a format ends: one of these strings (none empty), or one of these tokens."""

    ends: tuple[str, ...] = ()
    token_ends: frozenset[int] = frozenset()


class Lowering:
    """Turns formats into nodes; the rules that they refer to are collected in `contents`."""

    def __init__(self, contents: Contents, tokens: ControlTokens) -> None:
        self._contents = contents
        self._tokens = tokens
        self._bodies: dict[str, Reference] = {}

    def lower(self, found: Format, around: Around) -> Node:
        """The format. Raises GrammarError with the pointer of what cannot be honoured."""
        match found:
            case Constant(_, value):
                return Text(value)
            case Schema():
                return self._contents.schema(found)
            case EbnfText():
                return self._contents.grammar(found)
            case RegexText():
                return self._contents.regex(found)
            case AnyText():
                return any_text(found, around.ends, self._contents)
            case InOrder(_, elements):
                return Sequence((*self._all_but_last(found, around), self.lower(elements[-1], around)))
            case OneOf(_, elements):
                return choice(self.lower(element, around) for element in elements)
            case Repeated():
                return self._repeated(found, around)
            case Tag():
                return self._tag(found)
            case TriggeredTags():
                return self._triggered_tags(found, around, to_end=False)
            case SeparatedTags():
                return self._separated_tags(found, around)
            case Dispatch():
                return dispatch_on_text(self._text_dispatch(found, around), to_end=False)
            case OneToken(path, token):
                return TokenSet(frozenset((self._tokens.one(token, path),)))
            case OtherTokens(path, excludes, least, most):
                excluded = self._tokens.several(excludes, path) | around.token_ends
                return Repeat(self._tokens.any_but(excluded), least, most)
            case TokenTriggeredTags():
                return self._token_triggered_tags(found, around)
            case TokenDispatch(path, rules, _, loop):
                arms = self._rules([(self._tokens.one(token, path), rule) for token, rule in rules], around)
                return dispatch_on_tokens(arms, self._other_tokens(found, arms, around), loop=loop)

    def lower_to_end(self, found: Format, around: Around) -> Node:
        """The format and then one of the ends, of which there is at least one. Raises GrammarError."""
        match found:
            case AnyText(path, excludes, None, None):
                return text_until_any(around.ends, (), excludes, path)
            case InOrder(_, elements):
                return Sequence((*self._all_but_last(found, around), self.lower_to_end(elements[-1], around)))
            case OneOf(_, elements):
                return choice(self.lower_to_end(element, around) for element in elements)
            case Repeated(_, content, 0, 1):
                return choice((self.lower_to_end(content, around), one_of_texts(around.ends)))
            case TriggeredTags():
                return self._triggered_tags(found, around, to_end=True)
            case Dispatch():
                return dispatch_on_text(self._text_dispatch(found, around), to_end=True)
            case _:
                return Sequence((self.lower(found, around), one_of_texts(around.ends)))

    # Text and combinations

    def _all_but_last(self, found: InOrder, around: Around) -> Iterable[Node]:
        for element in found.elements[:-1]:
            if swallows_what_follows(element):
                raise refusal(element.path, f"free text would swallow what follows it; {_NO_END}")
            yield self.lower(element, around)

    def _repeated(self, found: Repeated, around: Around) -> Node:
        if found.most != 1 and swallows_what_follows(found.content):
            raise refusal(found.content.path, "free text cannot be repeated: it is as long as it likes already")
        return Repeat(self.lower(found.content, around), found.least, found.most)

    # Tags

    def _tag(self, tag: Tag, trigger: str = "") -> Node:
        """The tag; of its begin only what follows the trigger, which was written already."""
        if isinstance(tag.begin, OneToken):
            begin: Node = self.lower(tag.begin, Around())
        else:
            begin = Text(tag.begin.removeprefix(trigger))
        return Sequence((begin, self._body(tag)))

    def _body(self, tag: Tag) -> Reference:
        """Content and end, as a rule of their own: some tags are named in two places."""
        if tag.path not in self._bodies:
            self._bodies[tag.path] = self._contents.shared(self._content_and_end(tag))
        return self._bodies[tag.path]

    def _content_and_end(self, tag: Tag) -> Node:
        if isinstance(tag.ends, OneToken):
            end = frozenset((self._tokens.one(tag.ends.token, tag.ends.path),))
            return Sequence((self.lower(tag.content, Around(token_ends=end)), TokenSet(end)))
        around = Around(tuple(end for end in tag.ends if end))
        options = [self.lower_to_end(tag.content, around)] if around.ends else []
        if "" in tag.ends:
            if swallows_what_follows(tag.content):
                raise refusal(below(tag.path, "end"), "free text needs an end that is not empty")
            options.append(self.lower(tag.content, around))
        return choice(options)

    def _triggered_tags(self, found: TriggeredTags, around: Around, *, to_end: bool) -> Node:
        refuse_overlap(found.triggers, (), found.excludes, found.path)
        arms: list[tuple[str, Node]] = []
        for trigger in found.triggers:
            tags = [tag for tag in found.tags if self._text_begin(tag).startswith(trigger)]
            if not tags:
                raise refusal(below(found.path, "triggers"), f"no tag begins with the trigger {quoted(trigger)}")
            arms.append((trigger, self._contents.shared(choice(self._tag(tag, trigger) for tag in tags))))
        for tag in found.tags:
            if not self._text_begin(tag).startswith(found.triggers):
                raise refusal(below(tag.path, "begin"), "does not begin with any of the triggers")
        how = TextDispatch(found.path, tuple(arms), found.excludes, around.ends, loop=not found.stop_after_first)
        if not found.at_least_one:
            return dispatch_on_text(how, to_end=to_end)
        first = choice(Sequence((Text(trigger), arm)) for trigger, arm in arms)
        if not found.stop_after_first:
            return Sequence((first, dispatch_on_text(how, to_end=to_end)))
        return Sequence((first, one_of_texts(around.ends))) if to_end else first

    def _separated_tags(self, found: SeparatedTags, around: Around) -> Node:
        tags = choice(self._tag(tag) for tag in found.tags)
        if not found.stop_after_first:
            if found.separator in around.ends:
                raise refusal(below(found.path, "separator"), "is also the end of the tag around it; use another one")
            tags = Sequence((tags, Repeat(Sequence((Text(found.separator), tags)), 0, None)))
        return tags if found.at_least_one else Repeat(tags, 0, 1)

    @staticmethod
    def _text_begin(tag: Tag) -> str:
        if isinstance(tag.begin, OneToken):
            raise refusal(tag.begin.path, 'must be a string here; token begins belong into "token_triggered_tags"')
        return tag.begin

    # Dispatching

    def _text_dispatch(self, found: Dispatch, around: Around) -> TextDispatch:
        return TextDispatch(found.path, self._rules(found.rules, around), found.excludes, around.ends, found.loop)

    def _rules(self, rules: Iterable[tuple[_Trigger, Format]], around: Around) -> tuple[tuple[_Trigger, Node], ...]:
        """What triggers, and the node of what follows it."""
        arms = []
        for trigger, rule in rules:
            if swallows_what_follows(rule):
                raise refusal(rule.path, f"free text would swallow what follows it; {_NO_END}")
            arms.append((trigger, self.lower(rule, around)))
        return tuple(arms)

    def _token_triggered_tags(self, found: TokenTriggeredTags, around: Around) -> Node:
        path = below(found.path, "trigger_tokens")
        triggers = [self._tokens.one(token, path) for token in found.triggers]
        tags: dict[int, list[Tag]] = {trigger: [] for trigger in triggers}
        for tag in found.tags:
            if not isinstance(tag.begin, OneToken):
                raise refusal(below(tag.path, "begin"), 'must be a format of type "token" here')
            begin = self._tokens.one(tag.begin.token, tag.begin.path)
            if begin not in tags:
                raise refusal(below(tag.path, "begin"), "is none of the trigger tokens")
            tags[begin].append(tag)
        for trigger, its_tags in tags.items():
            if not its_tags:
                raise refusal(path, f"no tag begins with the trigger token {trigger}")
        first = choice(self._tag(tag) for tag in found.tags)
        if found.at_least_one and found.stop_after_first:
            return first
        arms = tuple((trigger, choice(self._body(tag) for tag in its_tags)) for trigger, its_tags in tags.items())
        rest = dispatch_on_tokens(arms, self._other_tokens(found, arms, around), loop=not found.stop_after_first)
        return Sequence((first, rest)) if found.at_least_one else rest

    def _other_tokens(
        self, found: TokenDispatch | TokenTriggeredTags, arms: tuple[tuple[int, Node], ...], around: Around
    ) -> TokenSet:
        """Every token that may stand between: no trigger, none that is excluded, not the end around it."""
        excluded = self._tokens.several(found.excludes, below(found.path, "exclude_tokens")) | around.token_ends
        triggers = {trigger for trigger, _ in arms}
        if len(triggers) < len(arms) or excluded & triggers:
            raise refusal(found.path, "a token is there twice: as trigger, as excluded, or as the end around it")
        return self._tokens.any_but(excluded | triggers)
