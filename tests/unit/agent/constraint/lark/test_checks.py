"""What a grammar must satisfy before it is compiled."""

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.lark.checks import MAX_NODES, MAX_REFERENCE_DEPTH, checked
from agent.constraint.tree import (
    NOTHING,
    CharacterClass,
    Choice,
    Grammar,
    Node,
    Position,
    Reference,
    Repeat,
    Sequence,
    SubstringOf,
    Text,
)

A = Text("ab")


def grammar(root: Node, **rules: Node) -> Grammar:
    return Grammar({"root": root, **rules}, "root")


def test_an_undefined_rule_is_named_with_its_place() -> None:
    with pytest.raises(GrammarError, match="line 3, column 7: rule nosuch is not defined") as refused:
        checked(grammar(Sequence((A, Reference("nosuch", Position(3, 7))))))
    assert refused.value.position == Position(3, 7)


def test_a_missing_root_is_named() -> None:
    with pytest.raises(GrammarError, match="rule start is not defined"):
        checked(Grammar({"root": A}, "start"))


@pytest.mark.parametrize(
    "rules",
    [
        {"root": Reference("root")},
        {"root": Sequence((Text("("), Reference("root")))},
        {"root": Reference("a"), "a": Sequence((A, Reference("b"))), "b": Reference("a")},
        {"root": CharacterClass(())},
        {"root": Repeat(NOTHING, 1, 2)},
        {"root": Choice((Sequence((A, NOTHING)), Reference("root")))},
    ],
)
def test_a_language_without_text_is_refused(rules: dict[str, Node]) -> None:
    with pytest.raises(GrammarError, match="rule root matches nothing"):
        checked(Grammar(rules, "root"))


def test_options_that_can_never_end_are_left_out() -> None:
    endless = Sequence((A, Reference("endless")))
    found = checked(grammar(Choice((A, Reference("endless"))), endless=endless, unused=A))
    assert found == grammar(A)


def test_an_optional_part_that_matches_nothing_is_left_out() -> None:
    assert checked(grammar(Sequence((A, Repeat(Reference("x"), 0, None))), x=Reference("x"))) == grammar(A)


def test_reversed_and_huge_counts_are_refused() -> None:
    with pytest.raises(GrammarError, match="at least 5 and at most 0"):
        checked(grammar(Repeat(A, 5, 0)))
    with pytest.raises(GrammarError, match="count is over"):
        checked(grammar(Repeat(A, 0, 2**31)))


def test_sizes_are_bounded() -> None:
    with pytest.raises(GrammarError, match="parts"):
        checked(grammar(Choice((Choice((A,) * 1_000),) * (MAX_NODES // 1_000))))
    with pytest.raises(GrammarError, match="substrings"):
        checked(grammar(SubstringOf(("word " * 5_000,))))
    deep: Node = A
    for _ in range(5_000):
        deep = Repeat(deep, 0, 1)
    with pytest.raises(GrammarError, match="nested"):
        checked(grammar(deep))


def test_a_long_chain_of_rules_is_refused() -> None:
    def chain(length: int) -> Grammar:
        rules: dict[str, Node] = {f"r{n}": Sequence((A, Reference(f"r{n + 1}"))) for n in range(length)}
        return Grammar({"root": Reference("r0"), **rules, f"r{length}": A}, "root")

    with pytest.raises(GrammarError, match="levels deep"):
        checked(chain(4_000))
    assert len(checked(chain(MAX_REFERENCE_DEPTH - 2)).rules) == MAX_REFERENCE_DEPTH
