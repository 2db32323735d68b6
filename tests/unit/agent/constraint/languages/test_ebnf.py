"""The EBNF front end: XGrammar's language, and where it differs from GBNF."""

import re

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.languages.ebnf import parse_ebnf
from agent.constraint.tree import (
    CharacterClass,
    Choice,
    Position,
    Reference,
    Repeat,
    RuleOptions,
    Sequence,
    Shortest,
    Text,
    TokenSet,
)
from tests.support.constraint_recogniser import Recogniser


def accepts(grammar: str, *texts: str) -> list[bool]:
    judge = Recogniser(parse_ebnf(grammar))
    return [judge.accepts(text) for text in texts]


def refusal(grammar: str) -> GrammarError:
    with pytest.raises(GrammarError) as caught:
        parse_ebnf(grammar)
    return caught.value


def test_the_tree_of_a_small_grammar() -> None:
    grammar = parse_ebnf('root ::= "a"\n  item_1.x+\nitem_1.x ::= [0-9] | ("b")?')
    assert grammar.rules["root"] == Sequence((Text("a"), Repeat(Reference("item_1.x"), 1, None)))
    assert grammar.rules["item_1.x"] == Choice((CharacterClass(((48, 57),)), Repeat(Text("b"), 0, 1)))
    root = grammar.rules["root"]
    assert isinstance(root, Sequence)
    assert [part.position for part in root.parts] == [Position(1, 10), Position(2, 11)]


@pytest.mark.parametrize(
    ("grammar", "inside", "outside"),
    [
        # C04
        ('root ::= "foo"\n       | bar_1\nbar_1 ::= [a-c\\-]{1,2}  # two at most\n\n', "c-", "abc"),
        ('root ::= "foo" | bar\r\nbar ::= "baz"\r\n\r\n', "baz", "bar"),
        # C02
        ('root ::= root "a" | "b"', "baa", "ab"),
        ('root ::= expr\nexpr ::= int | sum\nint ::= [0-9]+\nsum ::= expr ("+" | "-") expr', "1+2-3", "1+"),
        # The table of differences
        ('root ::= _a.b-c\n_a.b-c\n # the name stands alone\n ::= "x"', "x", "y"),
        ("root ::= [^]", "\n", ""),
        ('root ::= "a" | []', "a", ""),
        (r'root ::= "\x1F600\x41"', "\U0001f600A", "\x1f600A"),
        (r'root ::= "\"\\\/\'\?\n\r\t\b\f\a\v\0\e\u00e9\U0001F600"', "\"\\/'?\n\r\t\b\f\a\v\0\x1b\u00e9\U0001f600", ""),
        (r"root ::= [\^\$\\\.\*\+\?\(\)\[\]\{\}\|\/\-]{15}", r"^$\.*+?()[]{}|/"[:15], "a" * 15),
        ("root ::= [--a]", "-", "b"),
        ("root ::= [+--] [a-]", ",-", ",b"),
        ('root ::= "a"{2,-1}', "aaa", "a"),
        ('root ::= "a" { 1 , 2 } "b" # x\n {2}', "abb", "ab"),
        ('root ::= "a"{0,2001}', "aaaa", "b"),
        ('root ::= "a"{0} ( ) (\n) "b"', "b", "ab"),
        ('root ::= ""* ("a"+)+', "aa", ""),
        ('root ::= "a" (= "b" [0-9])\nx ::= "a" (= ("b" | "c"))', "a", "ab"),
        ('root ::= "" | "b"', "", "a"),
        ('root ::= a[bc]\na ::= "x"', "xb", "x"),
        # Options
        ('root[capture="x, ]", lazy] ::= "a"+', "a", "aa"),
        ('root ::= v "!"\nv[capture, max_chars = 3] ::= [a-z]*', "abc!", "abcd!"),
        ('root[max_chars=5] ::= "<" ("ab")* ">" | "long"', "<ab>", "<abab>"),
        # Macros
        (r'root ::= "id " Regex("[a-c]{2}\\d")', "id ab1", "id ab"),
        ('root ::= Regex(".", json_string=false)', "\n", ""),
        ('root ::= Regex(".", flags="u")', "x", "\n"),
        ('root ::= Regex("k.", flags="isu")+', "K\nk\n", "k"),
        ('root ::= Regex("^a|b$")', "b", "ab"),
        (r'root ::= Regex("\\S+", json_string=true)', "a.b!c", 'a"b'),
        (r'root ::= Regex("\\S+", json_string=true)', "\u4f60\x7f", "a\\b"),
        ('root ::= Regex(".+", json_string=true)', "a b", "a\tb"),
        ('root ::= Regex("[^a]*|(x(\\"|y))?", json_string=true)', "xy", 'x"'),
        ('root ::= Substring("ab", "c", "d")', "cd", "abd"),
        ('root ::= "[" Substring() "]"', "[]", "[a]"),
    ],
)
def test_the_language_is_that_of_xgrammar(grammar: str, inside: str, outside: str) -> None:
    assert accepts(grammar, inside, outside) == [True, False]


TOOLS = """
root ::= TagDispatch(
    ("<tool_call>", tool_call_body),  # a comment
    ("<code>", code_body),
    loop_after_dispatch=true,
    excludes=()
)
tool_call_body ::= "{" [^}]* "}"
code_body ::= "```" [^`]* "```"
"""


def test_tags_are_dispatched_as_the_documentation_of_xgrammar_says() -> None:
    texts = [
        'I will call a tool. <tool_call>{"name": "get_weather"} Done.',
        "no tool call at all",
        "<code>```print(1)```<tool_call>{}",
        "it ends in an unfinished <tool_ca",
    ]
    assert accepts(TOOLS, *texts) == [True] * 4
    assert accepts(TOOLS, "<code>", "<code>x", "<code>```a```<tool_call>{") == [False] * 3


def test_tags_may_be_dispatched_once_and_texts_excluded() -> None:
    once = TOOLS.replace("=true", "=false")
    assert accepts(once, "x<code>``````", "none", "<code>``````x", "<code>``````<code>``````") == [
        True,
        True,
        False,
        False,
    ]
    outer = TOOLS.replace("root ::=", 'root ::= body "</answer>"\nbody ::=').replace(
        "excludes=()", 'excludes=("</answer>",)'
    )
    assert accepts(outer, "a<code>``````b</answer>", "a</answer>b</answer>", "a") == [True, False, False]


def test_tokens_are_sets_of_ids() -> None:
    grammar = parse_ebnf("root ::= Token(7, 5, 7) ExcludeToken(1)*")
    assert grammar.rules["root"] == Sequence(
        (TokenSet(frozenset((5, 7))), Repeat(TokenSet(frozenset((1,)), True), 0, None))
    )


def test_a_lazy_rule_is_its_shortest_match() -> None:
    assert parse_ebnf('root[lazy] ::= [^]* "x"').rules["root"] == Shortest(
        Sequence((Repeat(CharacterClass(((0, 0xD7FF), (0xE000, 0x10FFFF))), 0, None), Text("x")))
    )


REFUSED = [
    ('root ::= "a" | ', 1, 16, "empty"),
    ("root ::= ", 1, 10, "empty"),
    ('root ::= ("a" | )', 1, 17, "empty"),
    ('root ::=\n | "a"', 2, 2, "empty"),
    ('root ::= "a"\nfoo ::=\nbar ::= "b"', 3, 1, "empty"),
    ("root ::= .", 1, 10, r"write \[\^\]"),
    ('root ::= "a\nb"', 1, 10, "does not end on its line"),
    ("root ::= [a\nb]", 1, 10, "does not end on its line"),
    (r'root ::= "\-"', 1, 11, "not known"),
    (r'root ::= "\["', 1, 11, "not known"),
    (r'root ::= "\x"', 1, 11, "hexadecimal"),
    (r'root ::= "\x110000"', 1, 11, "no character"),
    (r"root ::= [\d]", 1, 11, r"no \\d"),
    ("root ::= [z-a]", 1, 11, "reversed"),
    ('root ::= "a"{,3}', 1, 13, "begin with a number"),
    ('root ::= "a"{3,2}', 1, 13, "below the lower bound"),
    ('root ::= "a"{2000001}', 1, 14, "over 1000000"),
    ('root ::= "a"**', 1, 14, "in parentheses"),
    ('root ::= "a"{1,2}{1,2}', 1, 18, "in parentheses"),
    ("root ::= *", 1, 10, "put something before it"),
    ('root ::= "a"\nroot ::= "b"', 2, 1, "defined twice"),
    ('root ::= "a" b ::= "c"', 1, 14, "line of its own"),
    ("root ::= foo", 1, 10, "'foo' is not defined"),
    ("root ::= true", 1, 10, "no rule name"),
    ('1a ::= "x"', 1, 1, "must begin here"),
    ('true = "x"', 1, 1, "must begin here"),
    ('root = "x"', 1, 6, "'::=' is missing after the rule name; write it in place of '='"),
    ('root := "x"', 1, 6, "write it in place of ':='"),
    ('root[lazy] -> "x"', 1, 12, "write it in place of '->'"),
    ('root\n: "x"', 2, 1, "write it in place of ':'"),
    ('root "x"', 1, 6, "'::=' is missing after the rule name"),
    ('root ::= x\nx = "a"', 2, 3, "a rule is written name ::= body"),
    ("root ::= <[65]>", 1, 10, "no meaning here"),
    ('root ::= "a" 5', 1, 14, "no meaning here"),
    ('root ::= ("a"', 1, 10, "never closed"),
    ('root ::= "a")', 1, 13, "closes nothing"),
    ('root ::= "a" (= "b" | "c")', 1, 21, "cannot have alternatives"),
    ('root ::= ("a" (= "b"))', 1, 15, "outside all groups"),
    ('root ::= "a" (= "b") "c"', 1, 22, "last thing"),
    ('root ::= (= "b")', 1, 10, "empty"),
    ('root ::= "a" (= )', 1, 17, "empty"),
    ('root ::= "a" (= foo)', 1, 17, "'foo' is not defined"),
    ('root[max_tokens=0] ::= "a"', 1, 6, "a number from 1"),
    ('root[max_tokens=-1] ::= "a"', 1, 6, "a number from 1"),
    ('root[max_tokens=99999999999] ::= "a"', 1, 6, "a number from 1"),
    ('root[max_tokens] ::= "a"', 1, 6, "a number from 1"),
    ('root[temperature=-0.5] ::= "a"', 1, 6, "a number from 0 on"),
    ('root[temperature=1e999] ::= "a"', 1, 6, "a number from 0 on"),
    ('root[temperature="1"] ::= "a"', 1, 6, "a number from 0 on"),
    ("root[max_chars=5] ::= a*\na[temperature=1] ::= [a-z]", 1, 6, "cannot be kept around a rule with"),
    ('root[lazy, lazy] ::= "a"', 1, 12, "given twice"),
    ('root[lazzy] ::= "a"', 1, 6, "not known"),
    ('root[capture=""] ::= "a"', 1, 6, "takes a name"),
    ('root[max_chars=x] ::= "a"', 1, 6, "name=value"),
    ("root[max_chars=5] ::= [a-z]* [0-9]*", 1, 6, "max_chars is supported only"),
    ('root[max_chars=5] ::= "(" root ")" | "x"', 1, 6, "max_chars is supported only"),
    ("root ::= TokenTagDispatch((5, root))", 1, 10, "TokenTagDispatch is not supported"),
    ("root ::= Token()", 1, 10, "one or more token ids"),
    ("root ::= Token(true)", 1, 10, "one or more token ids"),
    ("root ::= Token", 1, 15, "arguments in parentheses"),
    ("root ::= Token(5 6)", 1, 18, "',' or '\\)'"),
    ('root ::= Regex("a(?=b)")', 1, 18, "look-ahead"),
    (r'root ::= Regex("\\x41\\bb")', 1, 22, "word boundary"),
    ('root ::= Regex("a", flags="m")', 1, 27, "i, s and u"),
    ('root ::= Regex("a", json_string="yes")', 1, 33, "true or false"),
    ('root ::= Regex("a", mode="x")', 1, 26, "no argument of this name"),
    ('root ::= Regex("a", "b")', 1, 10, "one pattern"),
    ("root ::= Substring(root)", 1, 20, "text in quotes"),
    ('root ::= TagDispatch(("", root))', 1, 23, "empty"),
    ('root ::= TagDispatch(("<a", root), ("<ab", root))', 1, 10, "can never be reached"),
    ('root ::= TagDispatch(("<a", root), excludes=("<",))', 1, 10, "can never be reached"),
    ('root ::= TagDispatch(("<a", "b"))', 1, 29, "name of a rule"),
    ('root ::= TagDispatch(("<a", foo))', 1, 29, "'foo' is not defined"),
    ('root ::= TagDispatch("<a")', 1, 22, "pairs"),
    ('foo ::= "a"', None, None, "no rule 'root'"),
    ("", None, None, "no rule 'root'"),
    ('root ::= "\0"', 1, 11, "NUL"),
    ('root ::= "\udc00"', 1, 11, "surrogate"),
]


def test_options_that_are_no_matter_of_the_language_are_kept_beside_it() -> None:
    rules = ("root[max_tokens=20, capture] ::= a b", 'a[ temperature = 0.7 ] ::= "x"', "b[temperature=0,lazy] ::= [y]*")
    assert parse_ebnf("\n".join(rules)).options == {
        "root": RuleOptions(max_tokens=20),
        "a": RuleOptions(temperature=0.7),
        "b": RuleOptions(temperature=0.0),
    }
    assert not parse_ebnf('root[lazy] ::= "a"').options


@pytest.mark.parametrize(("grammar", "line", "column", "words"), REFUSED)
def test_what_xgrammar_refuses_or_cannot_be_honoured_is_refused(
    grammar: str, line: int | None, column: int | None, words: str
) -> None:
    error = refusal(grammar)
    assert error.position == (None if line is None or column is None else Position(line, column))
    assert re.search(words, str(error))


@pytest.mark.parametrize(
    "grammar",
    [
        "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000,
        "root ::= " + '("a"' * 60_000,
        "root ::= " + '"a" ' * 60_000,
        "root ::= TagDispatch(" + "(" * 60_000,
        'root ::= Regex("' + "(" * 60_000 + '")',
        "root[" + "lazy," * 60_000 + "] ::= x",
        'root ::= "\\x' + "f" * 500_000 + '"',
    ],
)
def test_hostile_text_is_refused_at_once(grammar: str) -> None:
    refusal(grammar)


def test_a_hostile_option_is_refused_at_once() -> None:
    doubling = "".join(f"r{n} ::= r{n + 1} r{n + 1}\n" for n in range(60)) + 'r60 ::= "a"\n'
    assert "max_chars" in str(refusal(doubling + "root[max_chars=5] ::= r0 [a-z]*"))
