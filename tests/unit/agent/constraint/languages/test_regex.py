"""The regex front end: its language against Python's `re.fullmatch`; what is refused, where, and with what remedy."""

import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.constraint.errors import GrammarError
from agent.constraint.languages.regex import parse_regex
from agent.constraint.languages.regex_dialect import javascript_dialect, xgrammar_dialect
from agent.constraint.tree import EMPTY, CharacterClass, FreeText, Grammar, Position, Repeat, Sequence, Text
from tests.support.budgets import current
from tests.support.constraint_recogniser import Recogniser, node_contains
from tests.support.constraint_strings import near_misses, strings_in


def refusal(pattern: str) -> GrammarError:
    with pytest.raises(GrammarError) as caught:
        parse_regex(pattern)
    return caught.value


def test_the_tree_of_a_small_regex() -> None:
    tree = parse_regex("ab+[0-9]{2,}")
    assert tree == Sequence((Text("a"), Repeat(Text("b"), 1, None), Repeat(CharacterClass(((48, 57),)), 2, None)))
    assert isinstance(tree, Sequence)
    assert [part.position for part in tree.parts] == [Position(1, 1), Position(1, 3), Position(1, 9)]
    assert parse_regex("") == EMPTY


SAME_AS_PYTHON = [
    # C07
    r"\d{3}-\d{4}",
    r"(tmp-)?\d{4,6}",
    r"[\w-]+",
    # Every construct once
    r"(a|b)*c?",
    r"a{0}b",
    r"(?P<year>\d+)(?:x|)(y)?",
    r"a*?b+?c??d{1,2}?",
    r"[]a]|[^]b]",
    r"[a\-z]|[+--]|[.-]",
    r"a|",
    r"(|a)b",
    r"()",
    r"(a*)*b",
    r"(.|\n)*a(.|\n){3}",
    r"a.b",
    r"(?s)a.b",
    r"(?s:a.)b.",
    r"(?i)straße[a-c]",
    r"(?i:k)k(?-i:k)",
    r"(?i)[^a-c]",
    r"\x41é\U0001F600\.\*\\\-\/\ ",
    r"\s\S\w\W\D",
    r"[\s\S]*",
    r"[^\d\s]",
    r"^ab$",
    r"(^a|b)c",
    r"a(b|c$)",
    r"^(^a|^b)$",
    r"\Aab\Z",
    r"(?#a note)a(?#another)b",
    r"a{",
    r"a{x}",
    r"{}]",
    r"[\b]",
    r"[[a]",
    r"(?:a{2}){3}",
    r"(a|ab)(c|bcd)(d*)",
]


@pytest.mark.filterwarnings("ignore:Possible (nested set|set difference):FutureWarning")
@pytest.mark.parametrize("pattern", SAME_AS_PYTHON)
def test_the_language_is_that_of_python(pattern: str) -> None:
    grammar = Grammar({"root": parse_regex(pattern)}, "root")
    judge, random = Recogniser(grammar), Random(pattern)
    inside = strings_in(grammar, random, 25)
    assert inside
    assert [text for text in inside if not re.fullmatch(pattern, text)] == []
    for text in near_misses(inside, random, 40):
        assert judge.accepts(text) == bool(re.fullmatch(pattern, text)), text


ATOMS = st.sampled_from(
    ["a", "b", "ab", ".", r"\d", r"\W", "[ab]", "[^a]", r"[a-c\n]", r"\n", "(?i:A)", "()", "", r"\x62"]
)
QUANTIFIERS = st.sampled_from(["*", "+", "?", "{0}", "{2}", "{1,3}", "{2,}", "*?", "{0,2}?"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, QUANTIFIERS).map(lambda pair: f"({pair[0]}){pair[1]}"),
        st.lists(inner, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
    ),
    max_leaves=8,
)


@settings(max_examples=current().hypothesis_examples, deadline=None)
@given(PATTERNS, st.integers(0, 2**32))
def test_any_regex_has_the_language_that_python_gives_it(pattern: str, seed: int) -> None:
    grammar = Grammar({"root": parse_regex(pattern)}, "root")
    judge, random = Recogniser(grammar), Random(seed)
    texts = strings_in(grammar, random, 4, 6)
    for text in [*texts, *near_misses(texts, random, 6, "ab1A\n"), ""]:
        if len(text) < 16:
            assert judge.accepts(text) == bool(re.fullmatch(pattern, text)), text


REFUSED = [
    (r"a(?=b)", 2, "look-ahead"),
    (r"a(?!b)", 2, "look-ahead"),
    (r"(?<=b)a", 1, "look-behind"),
    (r"(?<!b)a", 1, "look-behind"),
    (r"(a)\1", 4, "back-reference"),
    (r"(?P<x>a)(?P=x)", 9, "back-reference"),
    (r"(?<x>a)\k<x>", 8, "back-reference"),
    (r"\bfoo", 1, "word boundary"),
    (r"fo\B", 3, "word boundary"),
    (r"a++", 3, "possessive"),
    (r"a{2}+", 5, "possessive"),
    (r"(?>a)", 1, "atomic"),
    (r"a(?(1)b)", 2, "conditions"),
    (r"(?R)", 1, "flags for the whole|not known|not supported"),
    (r"a**", 3, "two quantifiers"),
    (r"a{1}{2}", 5, "two quantifiers"),
    (r"*a", 1, "nothing before"),
    (r"(+a)", 2, "nothing before"),
    (r"a|?", 3, "nothing before"),
    (r"^*", 2, "nothing before"),
    (r"a{,3}", 2, "lower bound"),
    (r"a{3,2}", 2, "below the lower bound"),
    (r"a{99999999999999999999}", 2, "over 1000000"),
    (r"a(b", 2, "never closed"),
    (r"ab)", 3, "closes nothing"),
    (r"a[bc", 2, "never closed"),
    (r"a[]", 2, "never closed"),
    (r"[z-a]", 2, "reversed"),
    (r"[\d-z]", 4, "end of a range"),
    (r"[a-z&&[^b]]", 5, "set operations"),
    (r"[a-z--b]", 5, "set operations"),
    (r"[[:alpha:]]", 2, "POSIX"),
    ("ab\\", 3, "backslash"),
    (r"\0", 1, "octal"),
    (r"\e", 1, "not known"),
    (r"\Qa\E", 1, "quoting"),
    (r"\xg1", 1, "2 hexadecimal digits"),
    (r"\u12", 1, "4 hexadecimal digits"),
    (r"\U00110000", 1, "no character"),
    (r"\ud800", 1, "no character"),
    (r"\p{Greek}", 1, "general categories"),
    (r"a^b", 2, "beginning of the pattern"),
    (r"a$b", 2, "end of the pattern"),
    (r"(a|b$)c", 5, "end of the pattern"),
    ("(^a?)*", 2, "beginning of the pattern"),
    (r"(?m)^a", 1, "'m' is not supported"),
    (r"(?x)a", 1, "'x' is not supported"),
    (r"a(?i)b", 2, "stand at the beginning"),
    (r"(?P<a>x)(?P<a>y)", 9, "same name"),
    (r"(?y", 1, "not known"),
    ("a\0", 2, "NUL"),
    ("ab\ud800", 3, "surrogate"),
]


@pytest.mark.parametrize(("pattern", "column", "words"), REFUSED)
def test_what_no_automaton_has_is_refused_where_it_stands(pattern: str, column: int, words: str) -> None:
    error = refusal(pattern)
    assert error.position == Position(1, column)
    assert re.search(words, str(error))


def test_places_count_lines() -> None:
    assert refusal("a\r\nb\nc(?=d)").position == Position(3, 2)


@pytest.mark.parametrize(
    "pattern", ["(" * 60_000 + ")" * 60_000, "(?:a|" * 60_000, "[" * 60_000, "a{1" * 60_000 + "\0"]
)
def test_hostile_nesting_is_refused_at_once(pattern: str) -> None:
    refusal(pattern)


def test_patterns_that_are_catastrophic_elsewhere_are_fine() -> None:
    for pattern in (r"(a*)*b", r"(a|a)*(a|aa)+", r"(.|\n)*a(.|\n){25}", r"((a+)+)+$", "(a?){30}a{30}"):
        assert isinstance(parse_regex(pattern), Sequence | Repeat)


# Search, and the dialect of JSON Schema's `pattern`


FOUND_SOMEWHERE = [
    r"b",
    r"^a|b$",
    r"^ab$",
    r"(^a|b)c",
    r"(a|b$)",
    r"(^a)?b",
    r"a(b$)?",
    r"^",
    r"$",
    r"^$|a",
    r"^(a|b)*$",
    r"^(a+(b|$)){2,}$",
    r"(a(b|$))+",
    r"^(a(x|$)){0,2}",
    r"(^a|bc)+$",
    r"(^a|bc)+x",
    r"(a|b$){2,3}",
    r"((a|b)(c|$))*$",
    r"(^(a|b)|c){2}x",
    r"^(a(b|$)){0}c",
    r"^([^x]+(x|$)){2,}$",
]


@pytest.mark.parametrize("pattern", FOUND_SOMEWHERE)
def test_a_search_has_anything_around_it_where_no_anchor_stands(pattern: str) -> None:
    tree = parse_regex(pattern, is_search=True)
    judge, random = Recogniser(Grammar({"root": tree}, "root")), Random(pattern)
    for _ in range(400):
        text = "".join(random.choices("abcx", k=random.randrange(7)))
        assert judge.accepts(text) == bool(re.search(pattern, text)), text


def test_the_tree_of_a_search() -> None:
    assert parse_regex("^a", is_search=True) == Sequence((Text("a"), FreeText()))


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (r"\d\w\s", "1a\ufeff", "\u0665a "),
        (r"\w", "_", "é"),
        (r"[]|a", "a", ""),
        (r"[^]", "\n", ""),
        (r"[\w-.]+", "a-.", "/"),
        (r"[\w-a-z]", "z", "b-"),
        (r"\cA\0", "\x01\0", "cA0"),
        (r"\uD83D\uDE00", "😀", "\\"),
        (r"\u{1F600}", "😀", "u"),
        (r"\/\-[&&]", "/-&", "-"),
        (r".", "\x85", "\u2028"),
        (r"\p{Lu}\P{L}", "Ä1", "ä1"),
    ],
)
def test_the_dialect_of_javascript(pattern: str, inside: str, outside: str) -> None:
    tree = parse_regex(pattern, javascript_dialect())
    assert node_contains(tree, inside)
    assert not node_contains(tree, outside)


def test_the_dialect_of_xgrammar() -> None:
    assert node_contains(parse_regex(".", xgrammar_dialect()), "\n")
    assert not node_contains(parse_regex(".", xgrammar_dialect(dot_takes_newline=False)), "\n")
    assert not node_contains(parse_regex(r"\d", xgrammar_dialect()), "\u0665")
    assert node_contains(parse_regex("k", ignore_case=True), "K")
