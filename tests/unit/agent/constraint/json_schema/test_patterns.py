"""patterns.py, formats.py, text_sets.py and writing_texts.py of agent/constraint/json_schema: sets of texts."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.formats import format_patterns
from agent.constraint.json_schema.patterns import Pattern, read_pattern
from agent.constraint.json_schema.text_sets import TextSet, writable
from agent.constraint.json_schema.writing_texts import none_of_texts, pattern_text
from agent.constraint.tree import NOTHING, CharacterClass, Node, Text
from tests.support import budgets

PATTERNS = (
    "^a",
    "b$",
    "^[ab]*$",
    "a.b|^b",
    '^[^"]*$',
    "(a|b)a?$",
    "^(?:ab|ba)+$",
    "^.{1,3}$",
    "",
    "^$",
    "a{2,3}",
    "[^a]",
)
TEXTS = st.text(alphabet='ab"\\c\u00e9', max_size=6)


def node_of(text: str) -> Node:
    return read_pattern(text, "#").required[0].node


def matches(node: Node, text: str) -> bool:
    return Pattern("", node).matches(text)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("foo", ["foo", "a foo b"], ["fo"]),
        ("^a|b$", ["ax", "xb"], ["xa"]),
        ("^\\d+$", ["12"], ["", "\u0661"]),
        ("^\\w$", ["_"], ["\u00e9"]),
        ("^\\s$", ["\u00a0", "\ufeff"], ["a"]),
        ("^.$", ["a", "\U0001f600"], ["\n", "\u2028"]),
        ("^[^]$", ["\n"], [""]),
        ("^(tmp-)?\\d{4,6}$", ["tmp-1234", "123456"], ["123", "tmp-"]),
        ("^(a*)*b$", ["aaab"], ["a" * 40]),
    ],
)
def test_patterns_mean_what_ecma_262_says(pattern: str, inside: list[str], outside: list[str]) -> None:
    read = read_pattern(pattern, "#").required[0]
    assert [text for text in inside if not read.matches(text)] == []
    assert [text for text in outside if read.matches(text)] == []


def test_look_ahead_at_the_beginning_becomes_patterns_of_its_own() -> None:
    signed = read_pattern("^(?!x-)(?=.*\\d)[a-z0-9-]+$", "#")
    assert len(signed.required) == 2
    assert len(signed.forbidden) == 1
    for text, expected in (("a1", True), ("x-1", False), ("ab", False), ("a1!", False)):
        found = all(one.matches(text) for one in signed.required) and not signed.forbidden[0].matches(text)
        assert found is expected, text


@pytest.mark.parametrize(
    "pattern", ["\\bfoo", "(a)\\1", "a(?=b)", "(?<=a)b", "^(?!a)b|c$", "(", "[", "a{2,1}", "*a", "a$b"]
)
def test_what_no_automaton_has_is_refused_with_the_path(pattern: str) -> None:
    with pytest.raises(SchemaError, match=r"^#/properties/id/pattern: pattern, ") as refused:
        read_pattern(pattern, "#/properties/id/pattern")
    assert refused.value.path == "#/properties/id/pattern"


@settings(max_examples=2 * budgets.current().hypothesis_examples, deadline=None)
@given(
    st.lists(st.sampled_from(PATTERNS), max_size=2), st.lists(st.sampled_from(PATTERNS), max_size=2), st.lists(TEXTS)
)
def test_text_sets_are_what_re_says(required: list[str], forbidden: list[str], texts: list[str]) -> None:
    found = TextSet(map(node_of, required), map(node_of, forbidden))
    node = found.node()
    for text in (*texts, "", "a", "b", "ab", "ba", "aab", '"'):
        expected = all(re.search(p, text) for p in required) and not any(re.search(p, text) for p in forbidden)
        assert matches(node, text) == expected
        assert not (expected and found.is_empty())
    assert found.is_empty() == (node == NOTHING)


@given(st.frozensets(st.text(alphabet="ab", max_size=3), min_size=1, max_size=5), st.text(alphabet="abc", max_size=4))
def test_texts_are_excluded_and_no_others(excluded: frozenset[str], text: str) -> None:
    assert matches(none_of_texts(excluded, "#"), text) == (text not in excluded)


def test_a_text_too_long_to_be_excluded_is_refused() -> None:
    with pytest.raises(SchemaError, match="cannot be excluded"):
        none_of_texts(frozenset({"x" * 65}), "#/not")


def test_characters_that_json_text_cannot_hold_are_taken_out() -> None:
    assert writable(Text("a\x00")) == NOTHING
    assert writable(CharacterClass(((0, 31),))) == CharacterClass(((8, 10), (12, 13)))
    assert pattern_text(Text("\x07"), "#") is None
    assert pattern_text(node_of('^[^"]$'), "#") == (
        r"^(?:[\x{8}-\x{a}\x{c}-\x{d}\x{20}-\x{21}\x{23}-\x{7e}\x{80}-\x{d7ff}\x{e000}-\x{10ffff}])$"
    )


FORMATS = {
    "date": (["2024-02-29", "2000-02-29", "2023-12-31"], ["2023-02-29", "1900-02-29", "2023-13-01", "0000-01-01", "x"]),
    "time": (["10:00:00Z", "23:59:59.25+02:00"], ["10:00:00", "24:00:00Z"]),
    "date-time": (["2024-02-29T10:00:00Z"], ["2024-02-29", "2024-02-29 10:00:00Z"]),
    "duration": (["P1Y2M3DT4H5M6S", "P2W", "PT1S"], ["P", "PT", "P1S"]),
    "email": (["a.b+c@d.example"], ["a@", "a..b@c", "a b@c"]),
    "hostname": (["a", "a-b.example"], ["-a", "a..b", "a" * 64, ".".join(["a" * 60] * 5)]),
    "ipv4": (["127.0.0.1"], ["256.1.1.1", "1.2.3", "01.2.3.4"]),
    "ipv6": (["::", "::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"], ["1::2::3", "1:2", "12345::"]),
    "uuid": (["123e4567-E89B-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000"]),
    "uri": (["https://u@h:8/p?q#f", "urn:a:b", "http://[::1]/"], ["/p", "http://a b"]),
    "uri-reference": (["", "../a", "#f", "//h"], ["a b", "1:b"]),
    "iri": (["https://\u00e4.example/\u00f6"], ["\u00e4"]),
    "iri-reference": (["\u00e4"], ["\u00e4 b"]),
    "uri-template": (["/a/{b}{?c*,d:3}"], ["{", "{a b}"]),
    "json-pointer": (["", "/a/~0~1"], ["a", "/~2"]),
    "relative-json-pointer": (["0", "12/a", "0#"], ["01", "-1"]),
    "idn-email": (["\u00e4@b.example"], ["\u00e4"]),
    "idn-hostname": (["a.example"], ["a b"]),
    "regex": (["^a+$", "[a-z]*|(b|c)?", ""], ["(", "a)", "[", "*"]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_of_the_standard(name: str) -> None:
    inside, outside = FORMATS[name]
    patterns = format_patterns(name)
    assert patterns
    assert [text for text in inside if not all(pattern.matches(text) for pattern in patterns)] == []
    assert [text for text in outside if all(pattern.matches(text) for pattern in patterns)] == []


def test_what_the_format_regex_takes_compiles() -> None:
    for text in ("a+?b", "\\d\\.", "[^a-z]x", "^(?:ab|c)*$", "a|b"):
        assert all(pattern.matches(text) for pattern in format_patterns("regex"))
        re.compile(text)


def test_names_outside_the_standard_say_nothing() -> None:
    assert format_patterns("phone") == ()
    assert format_patterns("int32") == ()
