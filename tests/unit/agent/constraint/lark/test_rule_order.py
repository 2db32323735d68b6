"""Rules in the order of their dependence; circles that are only repetitions are written as such."""

from random import Random

import pytest

from agent.constraint.lark.rule_order import leaves_first, without_simple_recursion
from agent.constraint.tree import EMPTY, CharacterClass, Choice, Grammar, Node, Reference, Sequence, Text
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import near_misses, strings_in

SMALL = CharacterClass(((97, 122),))


def ref(name: str) -> Reference:
    return Reference(name)


def test_each_group_comes_after_those_it_needs() -> None:
    rules: dict[str, Node] = {
        "a": Sequence((ref("b"), ref("d"))),
        "b": Choice((ref("c"), Text("x"))),
        "c": ref("b"),
        "d": Text("y"),
    }
    groups = [frozenset(group) for group in leaves_first(rules)]
    assert set(groups) == {frozenset("bc"), frozenset("d"), frozenset("a")}
    assert groups[-1] == {"a"}


def test_a_long_chain_needs_no_stack() -> None:
    rules: dict[str, Node] = {str(n): ref(str(n + 1)) for n in range(20_000)}
    rules["20000"] = SMALL
    assert next(leaves_first(rules)) == ("20000",)


LISTS: tuple[dict[str, Node], ...] = (
    {"items": Sequence((SMALL, ref("more"))), "more": Choice((Sequence((Text(","), ref("items"))), EMPTY))},
    {
        "items": Choice((Sequence((Text("a"), ref("b"))), Text("x"))),
        "b": Choice((Sequence((Text("b"), ref("c"))), Sequence((Text("q"), ref("items"))))),
        "c": Choice((Sequence((Text("c"), ref("items"))), Sequence((Text("d"), ref("b"))), Text("e"))),
    },
    {
        "items": Choice((Sequence((ref("b"), Text("a"))), Text("x"))),
        "b": Choice((Sequence((ref("items"), SMALL)), EMPTY)),
    },
)


@pytest.mark.parametrize("rules", LISTS)
def test_rules_that_only_repeat_each_other_are_freed_of_the_circle(rules: dict[str, Node]) -> None:
    found, circular = without_simple_recursion(rules)
    assert not circular
    one, two = Grammar(rules, "items"), Grammar(found, "items")
    random = Random(3)
    texts = strings_in(one, random, 30) + strings_in(two, random, 30)
    judges = Recogniser(one), Recogniser(two)
    for text in texts + near_misses(texts, random, 60):
        assert judges[0].accepts(text) == judges[1].accepts(text), text


def test_circles_through_the_middle_stay() -> None:
    rules: dict[str, Node] = {
        "value": Choice((SMALL, ref("list"))),
        "list": Sequence((Text("["), ref("value"), Text("]"))),
    }
    found, circular = without_simple_recursion(rules)
    assert circular == {"value", "list"}
    assert found == rules
