"""The tree of an automaton matches what the automaton does."""

from random import Random

import pytest

from agent.constraint.lark.alphabet import Alphabet, classes_in
from agent.constraint.lark.automaton import TooManyStates
from agent.constraint.lark.automaton_tree import tree_of
from agent.constraint.lark.normal_form import normalised
from agent.constraint.lark.regular import RegularTrees
from agent.constraint.tree import NOTHING, CharacterClass, Choice, Grammar, Node, Repeat, Sequence, Text
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import near_misses, strings_in
from tests.support.random_grammars import RandomGrammars

SMALL = CharacterClass(((97, 122),))
ANY = CharacterClass(((0, 0xD7FF), (0xE000, 0x10FFFF)))
ANYTHING = Repeat(ANY, 0, None)


def there_and_back(node: Node, most_nodes: int = 5_000) -> Node:
    plain = normalised(node)
    alphabet = Alphabet(classes_in(plain))
    return tree_of(RegularTrees({}, alphabet).exact(plain), alphabet, most_nodes)


def assert_same_language(node: Node, other: Node, seed: int) -> None:
    grammars = Grammar({"root": node}, "root"), Grammar({"root": other}, "root")
    random = Random(seed)
    texts = strings_in(grammars[0], random, 15) + strings_in(grammars[1], random, 15)
    texts += near_misses(texts, random, 30)
    judges = [Recogniser(grammar) for grammar in grammars]
    for text in texts:
        assert judges[0].accepts(text) == judges[1].accepts(text), (seed, text)


@pytest.mark.parametrize(
    "node",
    [
        Text("abc"),
        Repeat(SMALL, 1, 3),
        Sequence((ANYTHING, Text("secret"), ANYTHING)),
        Sequence((Choice((Text("http"), Text("https"))), Text("://"), Repeat(SMALL, 1, None))),
    ],
)
def test_the_language_stays(node: Node) -> None:
    assert_same_language(node, there_and_back(node), 0)


def test_the_language_of_random_trees_stays() -> None:
    for seed in range(60):
        node = RandomGrammars(Random(seed), plain=False)._regular(2)
        if normalised(node) != NOTHING:
            assert_same_language(node, there_and_back(node), seed)


def test_a_tree_that_is_too_large_is_not_made() -> None:
    with pytest.raises(TooManyStates):
        there_and_back(Text("a long text"), most_nodes=5)
