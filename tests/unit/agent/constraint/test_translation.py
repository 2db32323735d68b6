"""The request's fields reach the front end of its language as they were written."""

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.matcher import ConstraintVocabulary
from agent.constraint.translation import to_library_grammars
from shared.messages_to_agent import ConstraintText
from tests.support.scripted_llguidance import ScriptedForm

VOCABULARY = ConstraintVocabulary(ScriptedForm(8), 8, (0,))
GBNF = 'root ::= "a"\nother ::= "b"'


def test_an_empty_root_is_a_name_that_no_rule_has() -> None:
    with pytest.raises(GrammarError, match="no rule ''"):
        to_library_grammars(ConstraintText(kind="gbnf", text=GBNF, root=""), VOCABULARY, 1000)


def test_a_root_other_than_root_is_where_the_output_begins() -> None:
    written = [
        to_library_grammars(ConstraintText(kind="gbnf", text=GBNF, root=root), VOCABULARY, 1000)
        for root in (None, "root", "other")
    ]
    assert written[0] == written[1] != written[2]
