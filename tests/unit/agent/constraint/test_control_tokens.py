"""Tokens are named against the model's own vocabulary; only control tokens, and none that ends an answer."""

import pytest

from agent.constraint.control_tokens import resolve_tokens
from agent.constraint.errors import GrammarError
from agent.constraint.matcher import ConstraintVocabulary
from agent.constraint.tree import (
    Choice,
    Grammar,
    Node,
    Position,
    Repeat,
    Sequence,
    Shortest,
    Text,
    TokenNamed,
    TokenSet,
)
from tests.support.scripted_llguidance import ScriptedForm

CALL, END, OTHER_END, WORD = 1, 2, 3, 5
VOCABULARY = ConstraintVocabulary(
    ScriptedForm(8, special={"<call>": CALL, "<end>": END, "<stop>": OTHER_END}), 8, (END, OTHER_END)
)
PLACE = Position(3, 4)


def resolved(node: Node) -> Node:
    return resolve_tokens(Grammar({"root": node}, "root"), VOCABULARY).rules["root"]


def sentence(node: Node) -> str:
    with pytest.raises(GrammarError) as caught:
        resolved(node)
    return str(caught.value)


def test_a_name_becomes_its_id_wherever_it_stands() -> None:
    named, token = TokenNamed("<call>"), TokenSet(frozenset({CALL}))
    tree = Sequence((Choice((named, Text("a"))), Repeat(named, 0, 3), Shortest(named)))
    assert resolved(tree) == Sequence((Choice((token, Text("a"))), Repeat(token, 0, 3), Shortest(token)))


def test_a_grammar_without_tokens_is_the_same() -> None:
    grammar = Grammar({"root": Sequence((Text("a"), Repeat(Text("b"), 0, 2)))}, "root")
    assert resolve_tokens(grammar, VOCABULARY) is grammar


def test_an_excluded_token_takes_the_ends_with_it() -> None:
    assert resolved(TokenNamed("<call>", negated=True)) == TokenSet(frozenset({CALL, END, OTHER_END}), negated=True)
    assert resolved(TokenSet(frozenset({WORD}), negated=True)) == TokenSet(
        frozenset({WORD, END, OTHER_END}), negated=True
    )
    assert resolved(TokenNamed("<end>", negated=True)) == TokenSet(frozenset({END, OTHER_END}), negated=True)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (TokenNamed("<nothing>", position=PLACE), "no control token <nothing>"),
        (TokenNamed("<" + "x" * 500 + ">", position=PLACE), "xxx...;"),
        (TokenNamed("<end>", position=PLACE), "token 2 ends the answer"),
        (TokenSet(frozenset({CALL, WORD}), position=PLACE), "token 5 is no control token"),
        (TokenSet(frozenset({OTHER_END}), position=PLACE), "token 3 ends the answer"),
        (TokenSet(frozenset({8}), position=PLACE), "ids are 0 to 7"),
        (TokenSet(frozenset({-1}), negated=True, position=PLACE), "token -1 is not in the vocabulary"),
    ],
)
def test_what_cannot_be_named_is_refused_with_its_place(node: Node, words: str) -> None:
    said = sentence(node)
    assert said.startswith("line 3, column 4: ")
    assert words in said
    assert len(said) < 200
