"""The one table of failures: complete, with Paddler's codes and texts where it has them."""

import pytest

from balancer.http_failures import row_of, text_of
from shared.failures import Failure, FailureKind


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_kind_has_a_row_and_never_an_empty_text(kind: FailureKind) -> None:
    assert 400 <= row_of(kind).status < 600
    assert text_of(Failure(kind, ""), item_timeout_seconds=30.0)


@pytest.mark.parametrize(
    ("kind", "code", "text"),
    [
        (FailureKind.BUFFER_FULL, 503, "Buffered requests overflow"),
        (FailureKind.WAITED_TOO_LONG, 504, "Waiting for available slot timed out"),
        (FailureKind.SHUTTING_DOWN, 503, "balancer is shutting down"),
        (FailureKind.AGENT_LOST, 502, "Agent controller connection closed"),
        (FailureKind.INTERNAL, 500, "Internal server error"),
        (
            FailureKind.AGENT_SILENT,
            504,
            "Inference timed out after 1500ms waiting for next token. "
            "Increase --inference-item-timeout if the prompt requires longer processing.",
        ),
    ],
)
def test_codes_and_texts_are_those_of_the_wire(kind: FailureKind, code: int, text: str) -> None:
    failure = Failure(kind, "words of our own")
    assert (row_of(kind).status, text_of(failure, item_timeout_seconds=1.5)) == (code, text)


@pytest.mark.parametrize("kind", [FailureKind.PROMPT_TOO_LONG, FailureKind.EMPTY_PROMPT, FailureKind.INVALID_REQUEST])
def test_a_wrong_request_is_400_in_its_own_words(kind: FailureKind) -> None:
    failure = Failure(kind, "the prompt has 70 tokens and the limit is 64")
    assert row_of(kind).status == 400
    assert row_of(kind).native_variant is None
    assert text_of(failure, item_timeout_seconds=30.0) == failure.message


@pytest.mark.parametrize("words", ["the prompt has no tokens", "prompt: the prompt has no tokens"])
def test_what_is_wrong_with_a_prompt_begins_with_the_routes_name_for_it(words: str) -> None:
    failure = Failure(FailureKind.EMPTY_PROMPT, words, "prompt")
    assert text_of(failure, item_timeout_seconds=30.0) == "prompt: the prompt has no tokens"
    other = Failure(FailureKind.GRAMMAR_SYNTAX, "$.type: is wrong", "grammar")
    assert text_of(other, item_timeout_seconds=30.0) == "$.type: is wrong"


def test_what_went_wrong_inside_stays_inside() -> None:
    failure = Failure(FailureKind.INTERNAL, "KeyError in /srv/steersman/balancer/core/machine.py")
    assert text_of(failure, item_timeout_seconds=30.0) == "Internal server error"
