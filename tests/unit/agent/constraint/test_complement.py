"""The complement of a regular tree matches exactly what the tree does not."""

from random import Random

import pytest

from agent.constraint.complement import complement_of
from agent.constraint.tree import (
    NOTHING,
    CharacterClass,
    Choice,
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

SMALL = CharacterClass(((97, 122),))
ANY = CharacterClass(((0, 0xD7FF), (0xE000, 0x10FFFF)))
ANYTHING = Repeat(ANY, 0, None)


def assert_complement(node: Node, complement: Node, seed: int) -> None:
    inside, outside = Grammar({"root": node}, "root"), Grammar({"root": complement}, "root")
    random = Random(seed)
    texts = strings_in(inside, random, 15) + strings_in(outside, random, 15)
    texts += near_misses(texts, random, 30)
    judges = Recogniser(inside), Recogniser(outside)
    for text in texts:
        assert judges[0].accepts(text) != judges[1].accepts(text), (seed, text)


@pytest.mark.parametrize(
    "node",
    [
        Text("abc"),
        Repeat(SMALL, 1, 3),
        Sequence((ANYTHING, Text("secret"), ANYTHING)),
        Sequence((Choice((Text("http"), Text("https"))), Text("://"), Repeat(SMALL, 1, None))),
        Choice(()),
    ],
)
def test_complements(node: Node) -> None:
    complement = complement_of(node)
    assert complement is not None
    assert_complement(node, complement, 0)


def test_complements_of_random_trees() -> None:
    tried = 0
    for seed in range(60):
        grammars = RandomGrammars(Random(seed), plain=False)
        node = grammars._regular(2)
        complement = complement_of(node)
        if complement not in (None, NOTHING):
            assert complement is not None
            assert_complement(node, complement, seed)
            tried += 1
    assert tried > 40


def test_the_complement_of_everything_is_nothing() -> None:
    assert complement_of(ANYTHING) == NOTHING


def test_a_complement_that_is_too_large_is_not_made() -> None:
    assert complement_of(Sequence((ANYTHING, Text("a"), Repeat(ANY, 12, 12)))) is None
    assert complement_of(Repeat(SMALL, 0, 5_000)) is None
    assert complement_of(Text("a long text"), most_nodes=10) is None


def test_references_have_no_complement() -> None:
    with pytest.raises(ValueError, match="refers to rules"):
        complement_of(Reference("x"))
