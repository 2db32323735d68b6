"""Token formats: only control tokens, none that ends the answer, and what is left out of "any token"."""

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.structural_tag.parsing import parse_structural_tag
from agent.constraint.tree import EMPTY, Choice, Node, Reference, Repeat, Sequence, Text, TokenSet
from tests.support.structural_tags import ANY, Json, const, sequence, whole


class FewTokens:
    """Three control tokens, the last of which ends the answer; every other token is text."""

    def __init__(self) -> None:
        self.vocab_size = 100
        self.eos_tokens = [12]
        self._control = {"<|call|>": 10, "<|done|>": 11, "<|end|>": 12}

    def is_special_token(self, token: int) -> bool:
        return token in self._control.values()

    def tokenize_str(self, text: str, *, parse_special: bool = False) -> list[int]:
        assert parse_special
        return [self._control[text]] if text in self._control else [ord(character) % 10 for character in text]


def lowered(form: Json) -> Node:
    """The root, with references replaced and single elements unwrapped, so that trees are short to write."""
    grammar = parse_structural_tag(whole(form), FewTokens())
    return flat(grammar.rules["root"], dict(grammar.rules))


def flat(node: Node, rules: dict[str, Node]) -> Node:
    match node:
        case Reference(name):
            return flat(rules[name], rules)
        case Repeat(body, least, most):
            return Repeat(flat(body, rules), least, most)
        case Choice(options):
            return Choice(tuple(flat(option, rules) for option in options))
        case Sequence(parts):
            found: list[Node] = []
            for part in (flat(part, rules) for part in parts):
                found.extend(part.parts if isinstance(part, Sequence) else [part])
            return found[0] if len(found) == 1 else Sequence(tuple(found))
        case _:
            return node


def one(*ids: int) -> TokenSet:
    return TokenSet(frozenset(ids))


def other(*ids: int) -> TokenSet:
    return TokenSet(frozenset(ids), negated=True)


def token(which: int | str) -> Json:
    return {"type": "token", "token": which}


def token_tag(begin: int | str, content: Json, end: int | str) -> Json:
    return {"type": "tag", "begin": token(begin), "content": content, "end": token(end)}


CALL = token_tag("<|call|>", const("x"), "<|done|>")
TRIGGERED: Json = {"type": "token_triggered_tags", "trigger_tokens": ["<|call|>"], "tags": [CALL]}
A_CALL = (one(10), Text("x"), one(11))


def test_a_token_is_named_by_spelling_or_number() -> None:
    assert lowered(token("<|call|>")) == lowered(token(10)) == one(10)


def test_any_token_leaves_out_what_ends_the_answer() -> None:
    assert lowered({"type": "exclude_token", "exclude_tokens": ["<|call|>", 3]}) == Repeat(other(10, 3, 12), 1, 1)
    assert lowered({"type": "any_tokens"}) == Repeat(other(12), 0, None)
    assert lowered({"type": "any_tokens", "max_tokens": 4, "exclude_tokens": ["<|end|>"]}) == Repeat(other(12), 0, 4)


def test_the_end_token_of_the_tag_around_them_is_left_out_too() -> None:
    found = lowered(token_tag("<|call|>", {"type": "any_tokens"}, "<|done|>"))
    assert found == Sequence((one(10), Repeat(other(11, 12), 0, None), one(11)))


def test_text_between_control_tokens_needs_no_care() -> None:
    found = lowered(token_tag("<|call|>", ANY, "<|done|>"))
    assert isinstance(found, Sequence)
    assert (found.parts[0], found.parts[2]) == (one(10), one(11))


def test_token_triggered_tags() -> None:
    free = Repeat(other(10, 12), 0, None)
    more = Repeat(Sequence((*A_CALL, free)), 0, None)
    assert lowered(TRIGGERED) == Sequence((free, more))
    assert lowered({**TRIGGERED, "at_least_one": True}) == Sequence((*A_CALL, free, more))
    assert lowered({**TRIGGERED, "stop_after_first": True}) == Sequence((free, Repeat(Sequence(A_CALL), 0, 1)))
    assert lowered({**TRIGGERED, "at_least_one": True, "stop_after_first": True}) == Sequence(A_CALL)


def test_token_dispatch() -> None:
    free = Repeat(other(10, 3, 12), 0, None)
    rules = [["<|call|>", const("x")]]
    found = lowered({"type": "token_dispatch", "rules": rules, "exclude_tokens": [3]})
    assert found == Sequence((free, Repeat(Sequence((one(10), Text("x"), free)), 0, None)))
    found = lowered({"type": "token_dispatch", "rules": rules, "exclude_tokens": [3], "loop": False})
    assert found == Sequence((free, Repeat(Sequence((one(10), Text("x"))), 0, 1)))


REFUSED: list[tuple[Json, str]] = [
    (token("hello"), '#/format: "hello" is no control token of this model; write it as text instead'),
    (token(5), "#/format: 5 is no control token of this model; write it as text instead"),
    (token(100), "#/format: 100 is not in this model's vocabulary of 100 tokens"),
    (token("<|end|>"), '#/format: "<|end|>" ends the answer of this model'),
    (token_tag("<|call|>", ANY, 12), "#/format/end: 12 ends the answer"),
    ({"type": "any_tokens", "exclude_tokens": ["<|eos|>"]}, '"<|eos|>" is no control token of this model'),
    ({**TRIGGERED, "trigger_tokens": ["<|call|>", "<|done|>"]}, "#/format/trigger_tokens: no tag begins with"),
    ({**TRIGGERED, "trigger_tokens": ["<|done|>"]}, "#/format/tags/0/begin: is none of the trigger tokens"),
    ({**TRIGGERED, "tags": [{**CALL, "begin": "x"}]}, '#/format/tags/0/begin: must be a format of type "token"'),
    ({**TRIGGERED, "exclude_tokens": [10]}, "#/format: a token is there twice"),
    ({"type": "triggered_tags", "triggers": ["<"], "tags": [CALL]}, "#/format/tags/0/begin: must be a string here"),
    (
        {"type": "tag", "begin": "<|call|>", "content": const("x"), "end": "!"},
        '#/format/begin: "<|call|>" is a control token of this model, and a string means text; write {"type": "token"',
    ),
    (
        {"type": "tag", "begin": "!", "content": const("x"), "end": ["!", "<|end|>"]},
        '#/format/end: "<|end|>" is a control token of this model, which ends the answer by itself; leave it out',
    ),
    (
        sequence(const("y"), {"type": "dispatch", "rules": [["<|done|>", const("x")]], "loop": False}),
        '#/format/elements/1/rules: "<|done|>" is a control token of this model',
    ),
    (sequence({"type": "any_tokens"}, token(10)), "#/format/elements/0: free text would swallow"),
]


@pytest.mark.parametrize(("form", "sentence"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_this_model_cannot_do_is_refused(form: Json, sentence: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_structural_tag(whole(form), FewTokens())
    assert sentence in str(caught.value)


def test_nothing_is_asked_of_the_vocabulary_by_tags_without_tokens() -> None:
    assert parse_structural_tag(whole(const(""))).rules["root"] in (EMPTY, Text(""))
