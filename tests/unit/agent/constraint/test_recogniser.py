"""Our judge of languages is judged: by definition, on every short string over a small alphabet."""

import re
from itertools import product
from random import Random

import pytest

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
    Shortest,
    SubstringOf,
    Text,
    TokenSet,
)
from tests.support.constraint_recogniser import Recogniser, language_contains, node_contains
from tests.support.constraint_strings import near_misses, strings_in

A, B = Text("a"), Text("b")
SHORT = ["".join(letters) for length in range(7) for letters in product("ab", repeat=length)]


def language(grammar: Grammar) -> set[str]:
    judge = Recogniser(grammar)
    return {text for text in SHORT if judge.accepts(text)}


def of(node: Node, **rules: Node) -> set[str]:
    return language(Grammar({"root": node, **rules}, "root"))


def seq(*parts: Node) -> Node:
    return Sequence(parts)


def either(*options: Node) -> Node:
    return Choice(options)


ROOT = Reference("root")


@pytest.mark.parametrize(
    ("node", "pattern"),
    [
        (EMPTY, ""),
        (NOTHING, "[^ab]"),
        (Text("ab"), "ab"),
        (CharacterClass(()), "[^ab]"),
        (CharacterClass(((97, 97), (99, 122))), "a"),
        (either(seq(A, B), EMPTY, seq(B, B, A)), "(ab||bba)"),
        (Repeat(A, 2, 3), "a{2,3}"),
        (Repeat(Text("ab"), 1, None), "(ab)+"),
        (Repeat(A, 3, 2), "[^ab]"),
        (Repeat(either(A, EMPTY), 2, None), "a*"),
        (Repeat(Repeat(Repeat(A, 0, 900), 0, 900), 900, 10**9), "a*"),
        (Repeat(Repeat(Text("aa"), 1, 2), 2, 2), "(a{4}|a{6}|a{8})"),
        (Repeat(A, 10**6, None), "[^ab]"),
    ],
)
def test_regular_languages_are_those_of_re(node: Node, pattern: str) -> None:
    assert of(node) == {text for text in SHORT if re.fullmatch(pattern, text)}


def test_recursion_of_every_kind() -> None:
    as_and_b = {text for text in SHORT if re.fullmatch("ba*", text)}
    assert of(either(seq(ROOT, A), B)) == as_and_b
    assert of(either(seq(Reference("x"), A), B), x=either(ROOT, NOTHING)) == as_and_b
    assert of(either(seq(Repeat(A, 0, None), ROOT), B)) == {text for text in SHORT if re.fullmatch("a*b", text)}
    assert of(either(seq(A, ROOT, A), seq(B, ROOT, B), A, B, EMPTY)) == {text for text in SHORT if text == text[::-1]}
    assert of(either(seq(A, ROOT, B), EMPTY)) == {"a" * n + "b" * n for n in range(4)}
    assert of(either(seq(ROOT, ROOT), A, EMPTY)) == {"a" * n for n in range(7)}
    assert of(either(ROOT, A)) == {"a"}
    assert of(seq(ROOT, A)) == set()


@pytest.mark.parametrize("avoid", [(), ("a",), ("ab",), ("aa", "bab"), ("",)])
@pytest.mark.parametrize("until", [None, "", "b", "ab", "aab", "abab", "aa"])
def test_free_text_is_as_the_tree_defines_it(avoid: tuple[str, ...], until: str | None) -> None:
    def belongs(text: str) -> bool:
        if any(string in text for string in avoid):
            return False
        return until is None or (text.endswith(until) and text.find(until) == len(text) - len(until))

    assert of(FreeText(avoid, until)) == {text for text in SHORT if belongs(text)}


def test_the_shortest_match_has_no_match_before_it() -> None:
    body = seq(Repeat(either(A, B), 0, None), either(Text("ab"), Text("ba")))
    whole = of(body)
    assert of(Shortest(body)) == {text for text in whole if not any(text[:n] in whole for n in range(len(text)))}
    assert of(seq(Shortest(Repeat(A, 1, None)), Repeat(A, 1, 1))) == {"aa"}


def test_substrings_are_runs_of_chunks() -> None:
    chunks = ("ab", "a", "", "bb")
    runs = {"".join(chunks[start:end]) for start in range(5) for end in range(start, 5)}
    assert of(SubstringOf(chunks)) == runs
    assert of(SubstringOf(())) == {""}


def test_characters_beyond_ascii_are_single_ones() -> None:
    assert node_contains(CharacterClass(((0x1F600, 0x1F600),)), "😀")
    assert not language_contains(Grammar({"root": seq(A, B)}, "root"), "a")


def test_tokens_are_not_judged() -> None:
    with pytest.raises(ValueError, match="TokenSet"):
        node_contains(TokenSet(frozenset((1,))), "a")


def test_strings_are_in_the_language_and_the_same_for_the_same_seed() -> None:
    grammar = Grammar(
        {
            "root": either(seq(Text("("), ROOT, Text(")")), Reference("word"), seq(Reference("stop"), ROOT)),
            "word": seq(Repeat(CharacterClass(((97, 122),)), 1, 5), SubstringOf(("x", "y")), Reference("never")),
            "never": either(A, seq(A, Reference("nothing"))),
            "nothing": Reference("nothing"),
            "stop": either(FreeText(("ab",), ";"), Shortest(Repeat(Text("q"), 2, None))),
        },
        "root",
    )
    judge = Recogniser(grammar)
    strings = strings_in(grammar, Random(1), 40)
    assert len(strings) == 40
    assert all(judge.accepts(text) for text in strings)
    assert strings == strings_in(grammar, Random(1), 40)
    missed = near_misses(strings, Random(2), 40)
    assert {judge.accepts(text) for text in missed} == {True, False}
    assert missed == near_misses(strings, Random(2), 40)


def test_an_empty_language_has_no_strings() -> None:
    assert strings_in(Grammar({"root": seq(ROOT, A)}, "root"), Random(1), 5) == []
    assert near_misses([], Random(1), 3) != []
