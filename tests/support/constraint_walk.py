"""A random walk under a constraint: at each step any allowed token, drawn uniformly, until the constraint is satisfied.

No model takes part. A uniform walk alone hardly ever writes an escape or a name that almost exists: with `favoured`
tokens, part of the steps draw from those among them that are allowed.
"""

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

from agent.constraint.json_schema import OPTIONS

FAVOURED_TEXTS = (
    '"', '\\', '\\"', '\\\\', "\\n", "\\u", "u", "0", "-", ".", "e", "1", "}", "]", "{", "[", ",", ":", "/", " ", "a",
    "b", '":', '",', '"a', 'a"', "null", "true", "00", "61", "20", "é", "\n",
)  # fmt: skip


@dataclass(slots=True)
class WalkVocabulary:
    """The tokenizer form, which tokens are single characters or favoured, and which end an answer."""

    form: LLTokenizer
    end_tokens: frozenset[int]
    favoured: NDArray[np.bool_]
    pieces: list[bytes]

    @classmethod
    def of(cls, form: LLTokenizer, end_tokens: Iterable[int], extra: Iterable[str] = ()) -> "WalkVocabulary":
        favoured = np.zeros(form.vocab_size, dtype=np.bool_)
        for text in (*FAVOURED_TEXTS, *extra):
            tokens = form.tokenize_str(text)
            if len(tokens) == 1:
                favoured[tokens[0]] = True
        pieces = [form.decode_bytes([token]) for token in range(form.vocab_size)]
        return cls(form, frozenset(end_tokens), favoured, pieces)


def compiled(vocabulary: WalkVocabulary, prepared: dict[str, Any]) -> LLMatcher:
    """A matcher of a prepared schema. Raises ValueError with the library's words when it takes it not."""
    grammar = LLMatcher.grammar_from_json_schema(json.dumps(prepared), overrides=OPTIONS)
    matcher = LLMatcher(vocabulary.form, grammar, log_level=0)
    if matcher.is_error():
        raise ValueError(matcher.get_error())
    return matcher


def accepts(vocabulary: WalkVocabulary, matcher: LLMatcher, text: str) -> bool:
    """Whether the constraint lets exactly this text be written. `matcher` is not advanced."""
    walker = matcher.deep_copy()
    tokens = vocabulary.form.tokenize_str(text)
    return bool(walker.try_consume_tokens(tokens) == len(tokens) and walker.is_accepting())


def walk(vocabulary: WalkVocabulary, matcher: LLMatcher, choose: random.Random, most_tokens: int = 400) -> bytes | None:
    """What a uniform sampler writes; None when it has not come to an end after `most_tokens`.

    After a tenth of these, shorter tokens are preferred, so that strings and lists end. Raises AssertionError when
    the constraint fails or leaves nothing but an end that it does not accept.
    """
    walker, written = matcher.deep_copy(), bytearray()
    for count in range(most_tokens):
        if walker.is_stopped():
            break
        allowed = _allowed(vocabulary, walker)
        assert not walker.is_error(), walker.get_error()
        ends = vocabulary.end_tokens.intersection(allowed.tolist()) if walker.is_accepting() else frozenset()
        others = allowed[~np.isin(allowed, list(vocabulary.end_tokens))]
        if ends and (not len(others) or choose.random() < 0.3):
            break
        assert len(others), "nothing may follow, and the constraint is not satisfied"
        token = _drawn(vocabulary, others, choose, in_a_hurry=count > most_tokens // 10)
        assert walker.consume_token(token), walker.get_error()
        written += vocabulary.pieces[token]
    else:
        return None
    assert walker.is_accepting()
    return bytes(written)


def _allowed(vocabulary: WalkVocabulary, walker: LLMatcher) -> NDArray[np.int64]:
    bits = np.frombuffer(walker.compute_bitmask(), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")[: vocabulary.form.vocab_size])


def _drawn(vocabulary: WalkVocabulary, allowed: NDArray[np.int64], choose: random.Random, in_a_hurry: bool) -> int:
    if in_a_hurry and choose.random() < 0.8:
        closing = [token for token in allowed.tolist() if vocabulary.pieces[token][-1:] in (b'"', b"}", b"]")]
        if closing:
            return int(min(closing, key=lambda token: (len(vocabulary.pieces[token]), token)))
    favoured = allowed[vocabulary.favoured[allowed]]
    if len(favoured) and choose.random() < 0.5:
        return int(favoured[choose.randrange(len(favoured))])
    return int(allowed[choose.randrange(len(allowed))])
