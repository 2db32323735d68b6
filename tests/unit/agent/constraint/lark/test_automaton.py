"""Automata of regular trees: exact ones accept what the tree does, approximate ones at least that."""

from random import Random

import pytest

from agent.constraint.lark.alphabet import Alphabet, classes_in
from agent.constraint.lark.automaton import Automaton, TooManyStates, disjoint
from agent.constraint.lark.normal_form import normalised
from agent.constraint.lark.regular import MOST_STATES, RegularTrees
from agent.constraint.tree import (
    CharacterClass,
    Choice,
    FreeText,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    SubstringOf,
    Text,
)
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import near_misses, strings_in

SMALL = CharacterClass(((97, 122),))
ANY = CharacterClass(((0, 0xD7FF), (0xE000, 0x10FFFF)))
WORDS = Choice((Text("one"), Text("only"), Repeat(SMALL, 2, 3)))
TREES: tuple[Node, ...] = (
    Text("abc"),
    Sequence((Repeat(SMALL, 0, None), Text("end"))),
    WORDS,
    Repeat(Sequence((WORDS, Text(" "))), 1, None),
    Repeat(Choice((Text("ab"), Text("a"))), 2, 4),
    FreeText(("ba", "bb"), "abc"),
    FreeText(("aab", "ba")),
    FreeText((), "abab"),
    Shortest(Sequence((Repeat(ANY, 0, None), Text("stop")))),
    Shortest(Choice((Text("ab"), Text("abc"), Text("b")))),
    SubstringOf(("ab", "c", "ab")),
    Sequence((FreeText(("<",)), Text("<b>"), SubstringOf(("x", "y")))),
)


def made(node: Node, *, exact: bool, **rules: Node) -> tuple[Automaton, Alphabet]:
    plain = normalised(node)
    alphabet = Alphabet([*classes_in(plain), *(found for rule in rules.values() for found in classes_in(rule))])
    trees = RegularTrees(rules, alphabet)
    return (trees.exact if exact else trees.approximate)(plain), alphabet


def accepts(automaton: Automaton, alphabet: Alphabet, text: str) -> bool:
    state = 0
    for letter in text:
        code = ord(letter)
        for mask, target in automaton.transitions(state):
            if any(first <= code <= last for first, last in alphabet.ranges(mask)):
                state = target
                break
        else:
            return False
    return automaton.accepting[state]


def texts_for(node: Node) -> list[str]:
    texts = strings_in(Grammar({"root": node}, "root"), Random(1), 20)
    return [*texts, *near_misses(texts, Random(2), 40), "aab", "x<b>ba"]


@pytest.mark.parametrize("node", TREES)
def test_exact_automata_accept_what_the_tree_does(node: Node) -> None:
    automaton, alphabet = made(node, exact=True)
    judge = Recogniser(Grammar({"root": node}, "root"))
    found = {text: accepts(automaton, alphabet, text) for text in texts_for(node)}
    assert found == {text: judge.accepts(text) for text in found}
    assert any(found.values())
    assert not all(found.values())


@pytest.mark.parametrize("node", [*TREES, Repeat(Text("ab"), 100, 200), Text("long" * 2_000)])
def test_approximate_automata_accept_at_least_that(node: Node) -> None:
    automaton, alphabet = made(node, exact=False)
    assert all(
        accepts(automaton, alphabet, text) for text in strings_in(Grammar({"root": node}, "root"), Random(1), 20)
    )


def test_what_is_approximated_still_says_which_characters() -> None:
    automaton, alphabet = made(Repeat(Text("ab"), 100, 200), exact=False)
    assert accepts(automaton, alphabet, "ab" * 3)
    assert not accepts(automaton, alphabet, "aab")
    automaton, alphabet = made(Text("long" * 2_000), exact=False)
    assert accepts(automaton, alphabet, "gnol")
    assert not accepts(automaton, alphabet, "lung")


def test_rules_are_followed() -> None:
    automaton, alphabet = made(Sequence((Reference("x"), Text("!"))), exact=True, x=Repeat(Text("ab"), 1, 2))
    assert accepts(automaton, alphabet, "abab!")
    assert not accepts(automaton, alphabet, "ababab!")


def test_what_doubles_with_each_rule_is_approximated() -> None:
    rules: dict[str, Node] = {"r0": Text("ab")}
    for number in range(1, 60):
        rules[f"r{number}"] = Sequence((Reference(f"r{number - 1}"),) * 2)
    automaton, alphabet = made(Reference("r59"), exact=False, **rules)
    automaton.expand()
    assert len(automaton.accepting) < 10
    assert accepts(automaton, alphabet, "abab")
    with pytest.raises(TooManyStates):
        made(Reference("r59"), exact=True, **rules)


def test_an_automaton_that_blows_up_stops_at_its_budget() -> None:
    node = Sequence((Repeat(ANY, 0, None), Text("a"), Repeat(ANY, 25, 25)))
    automaton, _ = made(node, exact=True)
    with pytest.raises(TooManyStates):
        automaton.expand()
    assert len(automaton.accepting) <= MOST_STATES + 1


def test_masks_are_cut_alike_whether_few_or_many() -> None:
    random = Random(5)
    pairs = [(random.getrandbits(12) | 1, 1 << place) for place in range(70)]
    for count in (1, 5, 64, 65, 70):
        groups = disjoint(pairs[:count])
        for minterm in range(12):
            wanted = sum(places for mask, places in pairs[:count] if mask >> minterm & 1)
            assert [places for mask, places in groups if mask >> minterm & 1] == ([wanted] if wanted else [])
