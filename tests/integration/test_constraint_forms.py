"""The compiled form of a tree accepts exactly what our own recogniser accepts, whatever the greedy lexer does."""

from collections.abc import Callable
from random import Random

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.lark import confusions
from agent.constraint.tree import (
    EMPTY,
    CharacterClass,
    Choice,
    FreeText,
    Grammar,
    JsonDocument,
    Node,
    Reference,
    Repeat,
    Sequence,
    Text,
    TokenSet,
)
from tests.support import budgets
from tests.support.compiled_form import CompiledForm
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import near_misses, strings_in
from tests.support.random_grammars import RandomGrammars
from tests.support.tokenizer_forms import OpenVocabulary, demo_vocabulary

pytestmark = pytest.mark.model
SMALL = CharacterClass(((97, 122),))
ANY = CharacterClass(((0, 0xD7FF), (0xE000, 0x10FFFF)))
ROOT = Reference("root")
CONTROL, OTHER_CONTROL, THIRD_CONTROL = (TokenSet(frozenset((number,))) for number in (1, 5, 6))


@pytest.fixture(scope="module")
def opened() -> OpenVocabulary:
    return demo_vocabulary()


def form_of(root: Node, opened: OpenVocabulary, **rules: Node) -> CompiledForm:
    return CompiledForm(Grammar({"root": root, **rules}, "root"), opened.form)


def compare(seeds: range, plain: bool, opened: OpenVocabulary) -> tuple[int, int]:
    """Grammars at random against the recogniser; how many texts were compared, and how many accepted."""
    compared = accepted = 0
    for seed in seeds:
        random = Random(seed)
        grammar = RandomGrammars(random, plain=plain).grammar()
        judge = Recogniser(grammar)
        texts = strings_in(grammar, random, 8)
        try:
            form = CompiledForm(grammar, opened.form)
        except GrammarError:
            assert not any(judge.accepts(text) for text in texts), seed
            continue
        for text in (text for text in texts + near_misses(texts, random, 8) if len(text) < 60):
            answer = form.accepts(text)
            if answer is not None:
                assert answer == judge.accepts(text), (seed, text)
                compared += 1
                accepted += answer
    return compared, accepted


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "every node"])
def test_grammars_at_random_accept_what_they_say(plain: bool, opened: OpenVocabulary) -> None:
    examples = 4 * budgets.current().hypothesis_examples
    compared, accepted = compare(range(10_000, 10_000 + examples), plain, opened)
    assert compared > 5 * examples
    assert 0.3 * compared < accepted < 0.9 * compared


def walk_in_pairs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(confusions, "MOST_WALKED", 0)


def confuse_everything(patch: pytest.MonkeyPatch) -> None:
    walk_in_pairs(patch)
    patch.setattr(confusions, "MOST_WALKED_IN_PAIRS", 0)


def open_everything(patch: pytest.MonkeyPatch) -> None:
    walk_in_pairs(patch)
    patch.setattr(confusions, "MOST_LEAVES_IN_PAIRS", 0)


@pytest.mark.parametrize("budget", [walk_in_pairs, confuse_everything, open_everything])
def test_a_spent_budget_costs_speed_and_no_text(
    budget: Callable[[pytest.MonkeyPatch], None], opened: OpenVocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget(monkeypatch)
    examples = budgets.current().hypothesis_examples
    compared, _ = compare(range(20_000, 20_000 + examples), False, opened)
    assert compared > 5 * examples


def before_rest(word: Node, letter: str) -> Grammar:
    """The word, and then a full stop or the letter, again all of it, and a bracket."""
    rest = Choice((Sequence((Text(letter), ROOT, Text(">"))), Text(".")))
    return Grammar({"root": Sequence((word, Reference("rest"))), "rest": rest}, "root")


def test_a_letter_that_begins_like_another_is_told_apart(opened: OpenVocabulary) -> None:
    """The lexer reads bytes: after `c` the first byte of `é` could begin an `ê`, which the class does hold."""
    most = CharacterClass(((99, 0xE8), (0xEA, 0xD7FF), (0xE000, 0x10FFFF)))
    form = CompiledForm(before_rest(Repeat(most, 1, None), "é"), opened.form)
    assert form.accepts("cê日éc.>")
    assert form.accepts("cê.")
    assert not form.accepts("éc.>")


def test_a_repetition_that_is_opened_keeps_its_least_count(opened: OpenVocabulary) -> None:
    for least in (0, 1, 2, 3):
        grammar = before_rest(Repeat(SMALL, least, None), "b")
        form, judge = CompiledForm(grammar, opened.form), Recogniser(grammar)
        for word in ("", "b", "a", "bb", "ab", "ba", "bbb", "abc"):
            for text in (word + ".", word + "b" + word + ".>", word + ".>"):
                assert form.accepts(text) == judge.accepts(text), (least, text)


def test_free_text_is_told_from_what_ends_it(opened: OpenVocabulary) -> None:
    shouted = Sequence((Repeat(ANY, 0, None), Text("END")))
    form = form_of(Choice((Sequence((Text("("), ROOT, Text(")"))), shouted)), opened)
    assert form.accepts("(a EN END)")
    assert form.accepts("ENDEND")
    assert not form.accepts("(a EN)")


def test_a_document_stands_between_free_texts(opened: OpenVocabulary) -> None:
    document = JsonDocument({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False})
    call = Sequence((FreeText(("<b>",), "<a>"), document))
    note = Sequence((FreeText(("<a>",), "<b>"), JsonDocument({"type": "integer"}), Text("</b>")))
    form = form_of(Sequence((Repeat(Choice((call, note)), 0, None), FreeText(("<a>", "<b>")))), opened)
    for text in ('x <a>{"a":3} y <b>-12</b> z <', "<", '<a>{}<a>{"a":0}'):
        assert form.accepts(text), text
    for text in ("<a>", '<a>{"a": 3}', "<b>1.5</b>", '<a>{"\\u0061":3}', '<a>{"a":3'):
        assert not form.accepts(text), text


def test_sets_of_tokens_may_overlap(opened: OpenVocabulary) -> None:
    some, others = TokenSet(frozenset((5, 6))), TokenSet(frozenset((6, 7)))
    form = form_of(Sequence((CONTROL, Choice((Sequence((some, Text("x"))), Sequence((others, Text("y"))))))), opened)
    x, y = (opened.form.tokenize_str(letter) for letter in "xy")
    assert form.accepts_tokens([1, 6, *x])
    assert form.accepts_tokens([1, 6, *y])
    assert not form.accepts_tokens([1, 5, *y])


def test_a_control_token_ends_text(opened: OpenVocabulary) -> None:
    form = form_of(Sequence((Repeat(SMALL, 0, None), CONTROL, Choice((Text("b"), EMPTY)))), opened)
    word, b = opened.form.tokenize_str("word"), opened.form.tokenize_str("b")
    assert form.accepts_tokens([*word, 1])
    assert form.accepts_tokens([*word, 1, *b])
    assert not form.accepts_tokens(word)


def test_any_but_some_tokens(opened: OpenVocabulary) -> None:
    but = TokenSet(frozenset((0, 1, 2, 4)), negated=True)
    form = form_of(Sequence((Repeat(but, 0, None), CONTROL, Text("x"))), opened)
    word, x = opened.form.tokenize_str("some 123 words"), opened.form.tokenize_str("x")
    assert form.accepts_tokens([*word, 5, 1, *x])
    assert not form.accepts_tokens([*word, 5])
