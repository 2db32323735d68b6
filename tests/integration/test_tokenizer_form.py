"""The slices of a tokenizer form make masks faster and change none of them."""

import json
from random import Random
from typing import Any

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

from agent.constraint.json_schema import OPTIONS
from tests.support.tokenizer_forms import OpenVocabulary, demo_vocabulary

pytestmark = pytest.mark.model
STATES = 250
FAVOURED = ('"', "\\", '\\"', "a", "b", '",', '":', "{", "}", "]", " ", "\n", "0", "the", " the", ".", "é")

SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 17}, "b": {"type": "integer"}}},
    {"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 11}},
    {
        "type": "array",
        "items": {"anyOf": [{"type": "string", "maxLength": 6}, {"type": "string", "pattern": "^[a-c]+"}]},
    },
    {"type": "object", "additionalProperties": {"type": "string"}},
)
LARKS = (
    r"start: (/[A-Z][a-z]{2,9} was born in [0-9]{4}\. /){9}",
    'start: ("- " /[^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+/ "\\n")+',
    r'start: WS? (/[a-z"\\]{1,7}/ WS)+' + "\n" + r"WS: /[ \t\n]+/",
    r"start: /(.|\n)*/",
)


def grammars() -> list[str]:
    schemas = [LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=OPTIONS) for schema in SCHEMAS]
    return [*schemas, *(LLMatcher.grammar_from_lark(lark) for lark in LARKS)]


def mask_of(matcher: LLMatcher) -> NDArray[np.uint8]:
    assert not matcher.is_error(), matcher.get_error()
    return np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)


@pytest.fixture(scope="module")
def opened() -> OpenVocabulary:
    return demo_vocabulary()


def states_compared(grammar: str, one: LLTokenizer, other: LLTokenizer, chance: Random, steps: int) -> int:
    """Walks both at random for so many tokens at most. Raises AssertionError where their masks differ."""
    left, right = (LLMatcher(form, grammar, log_level=0) for form in (one, other))
    favoured = [tokens[0] for text in FAVOURED if len(tokens := one.tokenize_str(text)) == 1]
    for step in range(steps):
        if left.is_stopped():
            return step
        mask = mask_of(left)
        assert np.array_equal(mask, mask_of(right))
        bits = np.unpackbits(mask, bitorder="little")
        likely = [token for token in favoured if bits[token]]
        if not likely or chance.random() < 0.4:
            likely = [int(token) for token in np.flatnonzero(bits)[3:]] or [int(np.flatnonzero(bits)[0])]
        token = chance.choice(likely)
        assert left.consume_token(token) == right.consume_token(token)
    return steps


def test_masks_are_the_same_with_slices_and_without(opened: OpenVocabulary) -> None:
    chance, compared = Random(7), 0
    whole = opened.form.with_slices([])
    while compared < STATES:
        for grammar in grammars():
            compared += states_compared(grammar, opened.form, whole, chance, 16)


def test_a_token_is_valid_exactly_where_the_mask_has_it(opened: OpenVocabulary) -> None:
    """So that a likely token need not wait for a mask."""
    chance, size = Random(11), opened.vocabulary.size
    for grammar in grammars():
        matcher = LLMatcher(opened.form, grammar, log_level=0)
        for _ in range(10):
            if matcher.is_stopped():
                break
            bits = np.unpackbits(mask_of(matcher), bitorder="little")[:size]
            allowed = np.flatnonzero(bits).tolist()
            asked = {*range(20), *chance.sample(range(size), 60), *chance.sample(allowed, min(40, len(allowed)))}
            asked -= opened.vocabulary.end_of_generation_tokens
            assert {token for token in asked if matcher.validate_tokens([token])} == {t for t in asked if bits[t]}
            assert np.array_equal(np.unpackbits(mask_of(matcher), bitorder="little")[:size], bits)
            assert matcher.consume_token(chance.choice([token for token in allowed if token > 16] or allowed))
