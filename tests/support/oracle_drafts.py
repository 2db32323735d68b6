"""Guesses for scripted answers, which no lookup would find: the right tokens for a while, then often a wrong one."""

from collections.abc import Sequence

import pytest

from agent.core import drafting
from agent.core.sequence import MemberSequence
from tests.support.scripted_backend import VOCABULARY_SIZE
from tests.support.scripted_constraint import ScriptedMatcher, expected_constrained


def use_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone. Guesses also hold what the constraint forbids, and the end."""
    monkeypatch.setattr(drafting, "guess_of", _guess)


def _guess(sequence: MemberSequence, most: int) -> Sequence[int]:
    assert isinstance(sequence.constraint, ScriptedMatcher)
    prompt, answer = sequence.tokens[: sequence.prompt_tokens], sequence.tokens[sequence.prompt_tokens :]
    whole, _ = expected_constrained(
        prompt, sequence.constraint.script, sequence.max_tokens, len(sequence.tokens) + most, sequence.adapter
    )
    mixed = hash((len(sequence.tokens), answer[-1] if answer else -1))
    right = whole[len(answer) :][: mixed % 5]
    return [*right, mixed % VOCABULARY_SIZE][:most] if mixed % 7 else right[:most]
