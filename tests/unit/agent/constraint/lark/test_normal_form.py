"""One plain shape for trees, with the same language."""

from random import Random

import pytest

from agent.constraint.lark.normal_form import normalised, repeat, without_own_recursion
from agent.constraint.tree import (
    EMPTY,
    NOTHING,
    CharacterClass,
    Choice,
    FreeText,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Text,
)
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import near_misses, strings_in
from tests.support.random_grammars import RandomGrammars

A, B, X = Text("a"), Text("b"), Reference("x")
SMALL = CharacterClass(((97, 122),))


def same(one: Grammar, two: Grammar, seed: int) -> bool:
    random = Random(seed)
    texts = strings_in(one, random, 10) + strings_in(two, random, 10)
    judges = Recogniser(one), Recogniser(two)
    return all(judges[0].accepts(t) == judges[1].accepts(t) for t in texts + near_misses(texts, random, 10))


@pytest.mark.parametrize(
    ("node", "plain"),
    [
        (Sequence((A, Sequence((B, Text("")))), None), Text("ab")),
        (Choice((A, Choice((B, SMALL)))), SMALL),
        (Choice((Text("ab"), EMPTY, Text("ab"))), Repeat(Text("ab"), 0, 1)),
        (Sequence((A, CharacterClass(()))), NOTHING),
        (Repeat(CharacterClass(()), 0, 3), EMPTY),
        (Repeat(Repeat(SMALL, 0, 900), 0, 900), Repeat(SMALL, 0, 810_000)),
        (FreeText(("b",), "ab"), NOTHING),
        (FreeText((), ""), EMPTY),
        (Text("\ud800"), NOTHING),
    ],
)
def test_shapes(node: Node, plain: Node) -> None:
    assert normalised(node) == plain


def test_counts_with_gaps_stay_nested() -> None:
    assert repeat(Repeat(A, 2, 2), 0, None) == Repeat(Repeat(A, 2, 2), 0, None)
    assert repeat(Repeat(A, 2, 3), 0, 2) == Repeat(Repeat(A, 2, 3), 0, 2)
    assert repeat(Repeat(A, 0, 3), 2, 4) == Repeat(A, 0, 12)
    assert repeat(Repeat(A, 2, 3), 1, 2) == Repeat(A, 2, 6)
    assert repeat(Repeat(A, 3, 4), 1, 2) == Repeat(Repeat(A, 3, 4), 1, 2)


def test_random_trees_keep_their_language() -> None:
    for seed in range(40):
        grammar = RandomGrammars(Random(seed), plain=False).grammar()
        plain = Grammar({name: normalised(body) for name, body in grammar.rules.items()}, "root")
        assert same(grammar, plain, seed), seed


@pytest.mark.parametrize(
    "body",
    [
        Choice((Sequence((A, X)), B)),
        Choice((Sequence((X, A)), B)),
        Choice((Sequence((A, X)), Sequence((X, B)), Text("c"))),
        Repeat(Sequence((SMALL, X)), 0, 1),
        Sequence((A, Choice((Sequence((B, X)), EMPTY)))),
        Choice((X, A)),
    ],
)
def test_a_rule_that_ends_or_begins_with_itself_is_a_repetition(body: Node) -> None:
    plain = normalised(body)
    free = without_own_recursion("x", plain)
    assert same(Grammar({"x": plain}, "x"), Grammar({"x": free}, "x"), 0)
    assert "Reference" not in repr(free)


def test_recursion_in_the_middle_stays() -> None:
    body = normalised(Choice((Sequence((A, X, B)), A)))
    assert without_own_recursion("x", body) == body
