"""What `json_string=true` leaves of a regular expression: exactly its texts that JSON writes without an escape."""

import json
import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.constraint.languages.json_string_text import without_escapes
from agent.constraint.languages.regex import parse_regex
from agent.constraint.tree import FreeText, Grammar
from tests.support.budgets import current
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import near_misses, strings_in

ATOMS = st.sampled_from(["a", "ab", '"', r"\\", r"\n", r"a\"", ".", r"\S", "[^a]", r'["a\\]', r"[\x00-\x7f]", "é"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{0,2}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


def is_written_plainly(text: str) -> bool:
    try:
        return bool(json.loads(f'"{text}"') == text)
    except json.JSONDecodeError:
        return False


@settings(max_examples=current().hypothesis_examples, deadline=None)
@given(PATTERNS, st.integers(0, 2**32))
def test_what_is_left_are_the_texts_that_need_no_escape(pattern: str, seed: int) -> None:
    node, random = parse_regex(pattern), Random(seed)
    judge = Recogniser(Grammar({"root": without_escapes(node)}, "root"))
    texts = strings_in(Grammar({"root": node}, "root"), random, 5, 6)
    for text in [*texts, *near_misses(texts, random, 5, 'ab"\\\n\x7f'), ""]:
        if len(text) < 16:
            expected = bool(re.fullmatch(pattern, text)) and is_written_plainly(text)
            assert judge.accepts(text) == expected, text


def test_what_is_no_regular_expression_is_a_bug() -> None:
    with pytest.raises(ValueError, match="FreeText"):
        without_escapes(FreeText())
