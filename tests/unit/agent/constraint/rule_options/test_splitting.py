"""Grammars are cut at their rules with options; what the parts say together is what the whole said."""

from random import Random

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.languages.ebnf import parse_ebnf
from agent.constraint.lark.writing import to_lark
from agent.constraint.rule_options.splitting import RulePart, split
from agent.constraint.tree import (
    EMPTY,
    Choice,
    Grammar,
    Node,
    Reference,
    Repeat,
    RuleOptions,
    Sequence,
    Shortest,
    TokenSet,
    references,
)
from tests.support import budgets
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import near_misses, strings_in
from tests.support.random_grammars import RandomGrammars

TOKENS = range(100, 132)


def parts_of(text: str) -> tuple[RulePart, ...]:
    return split(parse_ebnf(text), TOKENS)


def glued(node: Node, number: int, part: RulePart) -> Node:
    """With references to the other parts' roots in the place of their tokens, and names that no other part has."""
    match node:
        case Reference(name):
            return Reference(f"{number} {name}")
        case TokenSet(ids):
            (token,) = ids
            return Reference(f"{part.entries[token]}")
        case Sequence(inner):
            return Sequence(tuple(glued(one, number, part) for one in inner))
        case Choice(inner):
            return Choice(tuple(glued(one, number, part) for one in inner))
        case Repeat(body, least, most):
            return Repeat(glued(body, number, part), least, most)
        case Shortest(body):
            return Shortest(glued(body, number, part))
        case _:
            return node


def whole_of(parts: tuple[RulePart, ...]) -> Grammar:
    rules: dict[str, Node] = {}
    for number, part in enumerate(parts):
        rules[str(number)] = Reference(f"{number} {part.grammar.root}")
        rules |= {f"{number} {name}": glued(body, number, part) for name, body in part.grammar.rules.items()}
    return Grammar(rules, "0")


def test_the_parts_together_have_the_language_of_the_whole() -> None:
    examples = 5 * budgets.current().hypothesis_examples
    compared = refused = 0
    for seed in range(examples):
        random = Random(seed)
        grammar = RandomGrammars(random, plain=True).grammar()
        named = [name for name in grammar.rules if random.random() < 0.5]
        texts = strings_in(grammar, random, 5)
        try:
            parts = split(Grammar(grammar.rules, "root", dict.fromkeys(named, RuleOptions(9, None))), TOKENS)
        except GrammarError as error:
            refused += "begin with each other" in str(error)
            continue
        judge, other = Recogniser(grammar), Recogniser(whole_of(parts))
        for text in (text for text in texts + near_misses(texts, random, 5) if len(text) < 12):
            assert judge.accepts(text) == other.accepts(text), (seed, text)
            compared += 1
    assert compared > 3 * examples
    assert refused < examples / 3


def test_only_rules_with_options_that_are_reached_are_parts() -> None:
    parts = parts_of('root ::= a b\na[max_tokens=5] ::= b "x"\nb[temperature=0] ::= "y"\nc[max_tokens=2] ::= "z"')
    root, *others = parts
    assert root.options == RuleOptions()
    assert sorted(root.entries.values()) == [1, 2]
    entries = {part.options: [parts[number].options for number in part.entries.values()] for part in others}
    assert entries == {RuleOptions(5): [RuleOptions(None, 0.0)], RuleOptions(None, 0.0): []}


def test_the_root_has_options_too_and_may_be_inside_itself() -> None:
    (part,) = parts_of('root[max_tokens=7] ::= "(" root ")" | "x"')
    assert part.options == RuleOptions(7)
    assert list(part.entries.values()) == [0]


def test_a_rule_that_begins_with_itself_does_so_inside_its_part() -> None:
    for text in (
        'root ::= list\nlist[max_tokens=9] ::= list "," item | item\nitem ::= [0-9]',
        'root ::= sum\nsum[max_tokens=9] ::= more | [0-9]\nmore ::= sum "+" [0-9]',
    ):
        parts = parts_of(text)
        assert not parts[1].entries
        assert Recogniser(whole_of(parts)).accepts("1,2,3" if "list" in text else "1+2+3")


def test_a_rule_that_may_be_empty_may_be_left_out() -> None:
    root, inner = parts_of('root ::= a "b"\na[max_tokens=5] ::= "x"*')
    (body,) = (one for one in root.grammar.rules.values() if isinstance(one, Sequence))
    assert body.parts[0] == Repeat(TokenSet(frozenset((next(iter(root.entries)),))), 0, 1)
    assert inner.options == RuleOptions(5)
    assert EMPTY not in root.grammar.rules.values()


def test_any_other_token_is_none_that_stands_for_a_rule() -> None:
    root, _ = parts_of('root ::= ExcludeToken(5) a\na[max_tokens=5] ::= "x"')
    (negated,) = (one for one in _nodes(root.grammar) if isinstance(one, TokenSet) and one.negated)
    assert negated.ids == {5, *root.entries}


def _nodes(grammar: Grammar) -> list[Node]:
    found: list[Node] = list(grammar.rules.values())
    for node in found:
        if isinstance(node, Sequence):
            found.extend(node.parts)
    return found


MANY = "root ::= " + " ".join(f"r{n}" for n in range(40)) + "".join(f'\nr{n}[temperature=0] ::= "x"' for n in range(40))
LONG = (
    "root ::= " + " | ".join(f"r{n}" for n in range(30)) + "\nlong ::= " + '("x" [a-z] "y" | "z")* ' * 700
    + "".join(f'\nr{n}[temperature=0] ::= "{n}" long' for n in range(30))
)  # fmt: skip
REFUSED = {
    LONG: "the grammar has [0-9]+ parts; at most 100000 are possible",
    'root ::= a\na[max_tokens=5] ::= b "x"\nb[max_tokens=2] ::= a "y" | "z"': "cannot begin with each other: a and b",
    'root ::= a\na[max_tokens=5] ::= " "* a "x" | "z"': "cannot begin with each other: a; write repetitions as in",
    MANY: "40 rules have max_tokens or temperature; at most 31 are possible",
    'root ::= a\na[max_tokens=5] ::= a "x"': "matches nothing",
}


@pytest.mark.parametrize("grammar", REFUSED)
def test_what_cannot_be_cut_is_refused_with_what_to_do(grammar: str) -> None:
    with pytest.raises(GrammarError, match=REFUSED[grammar]):
        parts_of(grammar)


def test_the_shortest_match_cannot_be_asked_of_a_rule_with_options_in_it() -> None:
    root, _ = parts_of('root ::= b\na[max_tokens=5] ::= "x"\nb[lazy] ::= a "y"')
    with pytest.raises(GrammarError, match="shortest match"):
        to_lark(root.grammar)


def test_no_name_of_a_client_s_is_taken_by_a_part() -> None:
    for part in parts_of('root ::= a\na[max_tokens=5] ::= b a | "x"\nb ::= [a-z]'):
        assert all(used in part.grammar.rules for body in part.grammar.rules.values() for used in references(body))
