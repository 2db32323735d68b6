"""Nesting, which all front ends share: how deep it may go, and that the deepest can still be worked with."""

from collections.abc import Callable

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.languages.ebnf import parse_ebnf
from agent.constraint.languages.gbnf import parse_gbnf
from agent.constraint.languages.groups import depth_of
from agent.constraint.languages.regex import parse_regex
from agent.constraint.languages.source import MAX_DEPTH, MAX_NESTING
from agent.constraint.tree import Choice, Node, Position, Repeat, Sequence, Text


def gbnf(levels: int) -> Node:
    return parse_gbnf("root ::= " + '("b" | . "a" ' * levels + '"c"' + ")*?" * levels, "root").rules["root"]


def ebnf(levels: int) -> Node:
    return parse_ebnf("root ::= " + '("b" | [^] "a" ' * levels + '"c"' + ")*" * levels).rules["root"]


def regex(levels: int) -> Node:
    return parse_regex("(?:b|.a" * levels + "c" + ")*" * levels)


@pytest.mark.parametrize("parse", [gbnf, ebnf, regex])
def test_groups_may_be_nested_so_deep_and_no_deeper(parse: Callable[[int], Node]) -> None:
    node = parse(MAX_NESTING)
    assert depth_of(node) <= MAX_DEPTH
    assert node == parse(MAX_NESTING)
    assert hash(node) == hash(parse(MAX_NESTING))
    assert "Repeat" in repr(node)
    with pytest.raises(GrammarError, match="nested over 50 deep"):
        parse(MAX_NESTING + 1)


def test_operators_may_follow_each_other_so_long_and_no_longer() -> None:
    parse_gbnf('root ::= "a"' + "+" * (MAX_DEPTH - 1), "root")
    with pytest.raises(GrammarError, match="too many operators"):
        parse_gbnf('root ::= "a"' + "+" * MAX_DEPTH, "root")


def test_single_options_single_parts_and_neighbouring_literals_leave_no_trace() -> None:
    assert parse_gbnf('root ::= (("a") "b") "c"', "root").rules["root"] == Text("abc")
    node = parse_gbnf('root ::= "a" "b" ("c")+ "" | "d"', "root").rules["root"]
    assert node == Choice((Sequence((Text("ab"), Repeat(Text("c"), 1, None))), Text("d")))
    assert node.position == Position(1, 10)
    assert depth_of(node) == 4
