"""Which tokens a prompt becomes, and which prompts are refused with what sentence."""

import struct
from collections.abc import Sequence

import pytest

from agent.prompt_preparation import prepare_prompt, prompt_text
from shared.failures import Failure, FailureKind
from shared.generation_options import StopOptions
from shared.messages_to_agent import Generate
from tests.support.fake_model import BOS, FakeReader

WITH_BOS = FakeReader(adds_bos=True, bos_token=BOS)


def prompt(
    raw: str | None = None, ids: bytes | None = None, reader: FakeReader | None = None, limit: int = 20
) -> tuple[int, ...] | Failure:
    message = Generate(member=1, attempt=0, request_id="r", raw_prompt=raw, prompt_token_ids=ids, max_tokens=1, seed=0)
    return prepare_prompt(message, reader or FakeReader(), limit)


def failure(found: tuple[int, ...] | Failure) -> Failure:
    assert isinstance(found, Failure)
    return found


def packed(*ids: int) -> bytes:
    return struct.pack(f"<{len(ids)}i", *ids)


def test_bos_is_added_when_the_model_asks_for_it() -> None:
    assert prompt("ab", reader=WITH_BOS) == (BOS, 107, 108)
    assert prompt("ab") == (107, 108)


def test_a_prompt_that_begins_with_bos_gets_no_second_one() -> None:
    assert prompt("^ab", reader=WITH_BOS) == (BOS, 107, 108)


def test_a_model_that_has_a_bos_and_does_not_ask_for_it_gets_none() -> None:
    assert prompt("ab", reader=FakeReader(adds_bos=False, bos_token=BOS)) == (107, 108)


def test_an_empty_text_is_bos_alone_where_the_model_asks_for_it() -> None:
    assert prompt("", reader=WITH_BOS) == (BOS,)


@pytest.mark.parametrize("found", [prompt(""), prompt(ids=b"")])
def test_no_tokens_at_all_are_refused(found: tuple[int, ...] | Failure) -> None:
    assert failure(found).kind is FailureKind.EMPTY_PROMPT


def test_token_ids_are_used_as_they_are_given() -> None:
    assert prompt(ids=packed(BOS, BOS, 9), reader=WITH_BOS) == (BOS, BOS, 9)


@pytest.mark.parametrize("ids", [packed(1, 1000), packed(-1), packed(2**31 - 1), packed(-(2**31))])
def test_ids_outside_the_vocabulary_are_refused_by_name(ids: bytes) -> None:
    found = failure(prompt(ids=ids))
    assert found.kind is FailureKind.INVALID_REQUEST
    assert "prompt[" in found.message
    assert "0 to 999" in found.message


def test_a_piece_of_a_token_is_refused() -> None:
    assert failure(prompt(ids=b"\1\0\0")).kind is FailureKind.INVALID_REQUEST


def test_a_prompt_may_fill_the_request_limit_but_for_one_token() -> None:
    assert len(prompt("x" * 19)) == 19  # type: ignore[arg-type]


def test_a_prompt_that_is_too_long_names_both_lengths() -> None:
    found = failure(prompt("x" * 20))
    assert found.kind is FailureKind.PROMPT_TOO_LONG
    assert "20 tokens" in found.message
    assert found.parameter == "raw_prompt"
    assert "shorten it, or raise the desired state's context_size" in found.message
    assert "may have 7" in failure(prompt("x" * 20, limit=7)).message


def test_neither_or_both_kinds_of_prompt_are_refused() -> None:
    assert failure(prompt()).kind is FailureKind.INVALID_REQUEST
    assert failure(prompt("a", b"")).kind is FailureKind.INVALID_REQUEST


def test_a_text_that_cannot_be_tokenised_is_the_requests_own_fault() -> None:
    found = failure(prompt("a", reader=FakeReader(error=ValueError("the text cannot be tokenised"))))
    assert (found.kind, found.message) == (FailureKind.INVALID_REQUEST, "the text cannot be tokenised")


class HalfReader(FakeReader):
    """Each token is one byte."""

    def detokenize(self, tokens: Sequence[int], *, shows_special: bool, spaces_special: bool = False) -> bytes:
        return bytes(tokens)


def test_an_echo_ends_with_its_last_whole_character_and_keeps_the_rest() -> None:
    assert prompt_text(tuple("aé".encode()[:2]), HalfReader()) == ("a", "é".encode()[:1])
    assert prompt_text((0xFF, 97), HalfReader()) == ("\ufffda", b"")


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        (None, "a"),
        (StopOptions(), "a"),
        (StopOptions(skips_special_tokens=False), "^ ^a"),
        (StopOptions(skips_special_tokens=False, spaces_between_special_tokens=False), "^^a"),
    ],
)
def test_an_echo_shows_special_tokens_as_the_answer_does(stop: StopOptions | None, text: str) -> None:
    assert prompt_text((BOS, BOS, 107), FakeReader(), stop).text == text
