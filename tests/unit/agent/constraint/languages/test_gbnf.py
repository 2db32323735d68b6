"""The GBNF front end: what llama-cpp-python 0.3.36 was measured to accept, to refuse, and to mean."""

import re
from random import Random

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.languages.gbnf import parse_gbnf
from agent.constraint.tree import (
    CharacterClass,
    Choice,
    Position,
    Reference,
    Repeat,
    Sequence,
    Text,
    TokenNamed,
    TokenSet,
)
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import strings_in


def accepts(grammar: str, *texts: str) -> list[bool]:
    judge = Recogniser(parse_gbnf(grammar, "root"))
    return [judge.accepts(text) for text in texts]


def refusal(grammar: str, root: str = "root") -> GrammarError:
    with pytest.raises(GrammarError) as caught:
        parse_gbnf(grammar, root)
    return caught.value


def test_the_tree_of_a_small_grammar() -> None:
    grammar = parse_gbnf('root ::= "a" item+\nitem ::= [0-9] | (<[5]> !<|x|>)?', "root")
    assert grammar.rules["root"] == Sequence((Text("a"), Repeat(Reference("item"), 1, None)))
    tokens = Sequence((TokenSet(frozenset((5,))), TokenNamed("<|x|>", negated=True)))
    assert grammar.rules["item"] == Choice((CharacterClass(((48, 57),)), Repeat(tokens, 0, 1)))
    root = grammar.rules["root"]
    assert isinstance(root, Sequence)
    assert [part.position for part in root.parts] == [Position(1, 10), Position(1, 18)]


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "a"',
        'root::="a"',
        ' root ::= "a" # a comment',
        "root ::=",
        'root ::=\n"a"',
        'root ::= "a" |\n\n # a comment\n "b"',
        "root ::= (|)",
        "root ::= ()",
        'root ::= (\n"a"\n|\n"b"\n)',
        'root ::= "a"\r\nx ::= "b"\r\n',
        'root ::= "a"\rx ::= "b"',
        '1 ::= "x"\nroot ::= 1',
        'root ::= true\ntrue ::= "x"',
        'root ::= "a"{ 1 , 2 }',
        'root ::= "a"{1,2}{1,2}',
        'root ::= "a"+* "b"*?',
        "root ::= [a-] [--a] [^-a] [^^]",
        "root ::= !<[5]>*",
        'root ::= ("c"{50}){50}',
        'root ::= ("c"{0,50}){39}',
        'root ::= "a"{50}{40}',
        'root ::= "a"{0,50}{0,40}',
        'root ::= "a"{2000} | "b"{0,2000} | "c"{2000,}',
    ],
)
def test_what_llama_cpp_accepts_is_accepted(grammar: str) -> None:
    parse_gbnf(grammar, "root")


REFUSED = [
    # C01
    ("root ::= foo", 1, 10, "'foo' is not defined"),
    ('root ::= "abc', 1, 10, 'closing "'),
    ("root ::= [abc", 1, 10, "closing ]"),
    ('root ::= ("a" | "b"', 1, 10, "never closed"),
    ('root :== "x"', 1, 6, "'::=' is missing after the rule name; write it in place of ':=='"),
    ('root = "x"', 1, 6, "write it in place of '='"),
    ('root := "x"', 1, 6, "write it in place of ':='"),
    ('root ::= x\nx: "a"', 2, 2, "write it in place of ':'"),
    ('root ::= x |\nx = "a"', 2, 3, "name ::= body"),
    (r'root ::= "\d"+', 1, 11, r"no \\d"),
    # C02
    ('root ::= root "a" | "b"', 1, 1, "'root' is left-recursive"),
    ('root ::= "x"\nexpr ::= int | sum\nint ::= [0-9]+\nsum ::= expr "+" expr', 2, 1, "expr -> sum -> expr"),
    ('root ::= "x" | (a)\na ::= b*\nb ::= ("" a) "c"', 2, 1, "left-recursive"),
    # C03
    ('root ::= "a"{5,0}', 1, 13, "below the lower bound"),
    ('root ::= "ab"{3000}', 1, 14, "at most 2000"),
    ('root ::= "a"{99999999999999999999}', 1, 14, "over 1000000"),
    ('root ::= (("a"{0,900}){0,900}){0,900}', 1, 23, "at most 2000"),
    ('root ::= "a"{2001,}', 1, 13, "at most 2000"),
    ('root ::= ("c"{0,50}){40}', 1, 21, "at most 2000"),
    ('root ::= "a"{50}{41}', 1, 17, "at most 2000"),
    ('root ::= "a"{,3}', 1, 13, "begin with a number"),
    ('root ::= "a"{1', 1, 13, "close it"),
    # C04
    ('root ::= "foo"\n       | "bar"', 2, 8, "cannot begin with '|'"),
    ("root ::= bar_1", 1, 13, "no '_'"),
    ('bar_1 ::= "a"', 1, 4, "only letters, digits and -"),
    # The rest of the table
    ('root ::= "a"\n "b"', 2, 2, "must begin with its name"),
    (r'root ::= "\x4"', 1, 11, "2 hexadecimal"),
    (r'root ::= "\u00e"', 1, 11, "4 hexadecimal"),
    (r'root ::= "\/"', 1, 11, "not known"),
    (r"root ::= [\^]", 1, 11, "not known"),
    (r'root ::= "\ud800"', 1, 11, "no character"),
    (r'root ::= "\UFFFFFFFF"', 1, 11, "no character"),
    (r'root ::= "a\x00"', 1, 12, r"U\+0000"),
    ("root ::= [az-b]", 1, 12, "reversed"),
    ('root ::= "a" "b"{0}*', 1, 20, "nothing before"),
    ('root ::= ""*', 1, 12, "nothing before"),
    ("root ::= []+", 1, 12, "nothing before"),
    ('root ::= "a" | *', 1, 16, "nothing before"),
    ('root ::= "a")', 1, 13, "closes nothing"),
    ('root ::= ("a" x: )', 1, 16, "inside parentheses"),
    ("root ::= 'a'", 1, 10, "quote text"),
    ('root ::= "a" ::= "b"', 1, 14, "line of its own"),
    ('root ::= "a"\nroot ::= "b"', 2, 1, "defined twice"),
    ('root ::= !"a"', 1, 10, "a token is written"),
    ("root ::= <[99999999999]>", 1, 10, "so large an id"),
    ('root ::= ("a\r\nb"\r\n[', 3, 1, "closing ]"),
    ("", 1, 1, "no rule"),
    ("# only", 1, 1, "no rule"),
    ('root ::= "\0"', 1, 11, "NUL"),
    ('root ::= "\ud83d"', 1, 11, "surrogate"),
]


@pytest.mark.parametrize(("grammar", "line", "column", "words"), REFUSED)
def test_what_llama_cpp_refuses_or_means_otherwise_is_refused(grammar: str, line: int, column: int, words: str) -> None:
    error = refusal(grammar)
    assert error.position == Position(line, column)
    assert re.search(words, str(error))


def test_a_root_that_is_not_there_is_named() -> None:
    assert "'nosuch'" in str(refusal('root ::= "x"', "nosuch"))
    assert "'root'" in str(refusal('Root ::= "x"'))


def test_left_recursion_in_a_rule_that_is_never_used_is_refused() -> None:
    assert "'b'" in str(refusal('root ::= "x"\nb ::= b "y"'))


@pytest.mark.parametrize(
    ("grammar", "inside", "outside"),
    [
        (r'root ::= "\x41B\u00e9\U0001F600\t\r\n\\\"\[\]\-"', 'AB\u00e9\U0001f600\t\r\n\\"[]-', "A"),
        (r'root ::= "\xE9"', "\u00e9", "\xc3"),
        ('root ::= "a\nb"', "a\nb", "ab"),
        ("root ::= [^\\x00-\\x1f]", "a", "\0"),
        ("root ::= .", "\n", "\0"),
        ("root ::= [^a]", "b", "\0"),
        ("root ::= [] [^]", "", "a"),
        (r"root ::= [\]\-a-c\\]{4}", r"]-b\\"[:4], "d]-b"),
        ("root ::= [a\nb]", "\n", "c"),
        ("root ::= [+--]", ",", "a"),
        ('root ::= "a" | | "b"', "", "ab"),
        ('root ::= "ab"{2,3}', "ababab", "ab"),
        ('root ::= "ab"{0,2001}', "ab" * 5, "aba"),
        ('root ::= "a"{2}{2}', "aaaa", "aa"),
        ('root ::= ("a"|)* "b"', "aab", "ba"),
        ('root ::= ("a"*)* (.{0,2})*', "aaxyz", "\0"),
        ('root ::= ("c"?) root | "b"', "ccb", "bc"),
        ('root ::= "a"**', "aaa", "b"),
        ('root ::= "a"{0} "b"', "b", "ab"),
    ],
)
def test_the_language_is_that_of_llama_cpp(grammar: str, inside: str, outside: str) -> None:
    assert accepts(grammar, inside, outside) == [True, False]


def test_a_bound_that_llama_cpp_drops_is_exact() -> None:
    body = parse_gbnf('root ::= "ab"{1,2001}', "root").rules["root"]
    assert body == Repeat(Text("ab"), 1, 2001)


def test_arithmetic_generates_what_it_should() -> None:
    grammar = parse_gbnf('root ::= (e "\\n")+\ne ::= t ([-+*/] t)*\nt ::= [0-9]+ | "(" e ")"', "root")
    for text in strings_in(grammar, Random(4), 30):
        assert re.fullmatch(r"[-0-9+*/()\n]+", text)


@pytest.mark.parametrize(
    "grammar",
    [
        "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000,
        'root ::= "a"' + "*" * 60_000,
        "root ::= " + '("a"' * 60_000,
        "".join(f'r{n} ::= r{n + 1} "x"\n' for n in range(3_000)) + 'root ::= r0\nr3000 ::= r5 "x"',
        'root ::= "a"{' + "9" * 500_000 + "}",
        'root ::= "\\U' + "9" * 500_000,
        "root ::= <[" + "9" * 500_000 + "]>",
    ],
)
def test_hostile_text_is_refused_at_once(grammar: str) -> None:
    refusal(grammar)
