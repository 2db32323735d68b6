"""The vocabulary of a model lives as long as something is constrained with it, and no longer."""

import gc

import numpy as np
import pytest

from agent.constraint.matcher import LlguidanceMatcher
from agent.llama.vocabulary import LlamaVocabulary, load_vocabulary
from agent.llama_constraints import NOT_CONSTRAINABLE, LlamaConstraints, open_constraints
from shared.failures import Failure
from shared.messages_to_agent import ConstraintText
from tests.support.tiny_model import EOS_TOKEN, tiny_model_path

pytestmark = pytest.mark.model

GRAMMAR = ConstraintText(kind="gbnf", text='root ::= "the end" [.!]?')


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model_path(tmp_path_factory.mktemp("models")))


def is_freed(vocabulary: LlamaVocabulary) -> bool:
    gc.collect()
    try:
        return not vocabulary.pointer
    except RuntimeError:
        return True


def walk_of(constraints: LlamaConstraints) -> LlguidanceMatcher:
    matcher = constraints.compile(GRAMMAR)
    assert isinstance(matcher, LlguidanceMatcher), matcher
    return matcher


def test_a_walk_goes_on_after_its_model_was_closed_and_then_frees_the_vocabulary(path: str) -> None:
    lease = load_vocabulary(path)
    vocabulary = lease.vocabulary
    constraints = open_constraints(vocabulary)
    matcher = walk_of(constraints)
    constraints.close()
    lease.release()
    assert isinstance(constraints.compile(GRAMMAR), Failure)
    assert not is_freed(vocabulary)
    said = b""
    while not matcher.is_finished and not said.endswith(b"end"):
        tokens = list(matcher.take_forced(4))
        if not tokens:
            row = np.zeros(vocabulary.size, dtype=np.float32)
            assert matcher.mask(row)
            tokens = [int(np.flatnonzero(row == 0)[0])]
            assert matcher.accept(tokens[0])
        said += b"".join(vocabulary.token_piece(token) for token in tokens)
    row = np.zeros(vocabulary.size, dtype=np.float32)
    assert matcher.mask(row)
    assert row[EOS_TOKEN] == 0
    del matcher
    assert is_freed(vocabulary)


def test_a_closed_model_frees_what_nobody_walks(path: str) -> None:
    lease = load_vocabulary(path)
    vocabulary = lease.vocabulary
    constraints = open_constraints(vocabulary)
    walk_of(constraints)
    constraints.close()
    constraints.close()
    assert not is_freed(vocabulary), "the model's own lease"
    lease.release()
    assert is_freed(vocabulary)


def test_a_vocabulary_that_the_library_does_not_take_serves_free_text(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Panic(BaseException):
        """As the library's own: no Exception."""

    def break_down(_: LlamaVocabulary) -> None:
        raise Panic

    monkeypatch.setattr("agent.llama_constraints.build_tokenizer_form", break_down)
    with load_vocabulary(path) as lease:
        constraints = open_constraints(lease.vocabulary)
        found = constraints.compile(GRAMMAR)
        vocabulary = lease.vocabulary
    assert isinstance(found, Failure)
    assert found.message == NOT_CONSTRAINABLE
    assert "cannot be had" in caplog.text
    assert is_freed(vocabulary)
