"""What one sampled token does to an answer."""

from dataclasses import dataclass
from typing import Any

import pytest

from agent.core.commands import Submit
from agent.core.events import TokensCommitted
from agent.core.sequence import MemberSequence
from agent.core.stop_rules import StopRules
from agent.core.stop_search import StopStrings
from agent.core.stopping import Stopping, TokenVerdict
from shared.failures import FailureKind
from shared.generation import Channel, FinishReason, SamplingParameters
from tests.support.scripted_backend import (
    END_TOKEN,
    VOCABULARY_SIZE,
    GreedySampler,
    ScriptedRow,
    ScriptedVocabulary,
)


def member(*, max_tokens: int = 9) -> MemberSequence:
    request = Submit("k", (1, 2, 3), max_tokens, SamplingParameters(), 0, 1)
    return MemberSequence.of(request, GreedySampler())


def take(sequence: MemberSequence, token: int | None, *, limit: int = 100) -> TokenVerdict:
    return Stopping(ScriptedVocabulary(), VOCABULARY_SIZE, limit).take_token(sequence, token)


def test_a_token_grows_the_answer() -> None:
    sequence = member()
    verdict = take(sequence, 32)
    assert verdict == TokenVerdict((TokensCommitted("k", 0, (32,), "A", Channel.CONTENT),))
    assert sequence.tokens == [1, 2, 3, 32]
    assert isinstance(sequence.sampler, GreedySampler)
    assert sequence.sampler.observed == [32]


def test_half_a_character_is_sent_with_the_token_that_completes_it() -> None:
    sequence = member()
    assert [event.text for token in (90, 91) for event in take(sequence, token).events] == ["", "é"]


def test_an_answer_may_complete_the_character_that_an_echoed_prompt_began() -> None:
    request = Submit("k", (1, 90), 9, SamplingParameters(), 0, 1, text_before="é".encode()[:1])
    sequence = MemberSequence.of(request, GreedySampler())
    assert [event.text for event in take(sequence, 91).events] == ["é"]


def test_the_end_token_leaves_the_answer_as_it_is() -> None:
    sequence = member()
    assert take(sequence, END_TOKEN) == TokenVerdict((), FinishReason.STOP)
    assert sequence.answer_tokens == 0


def test_max_tokens_ends_with_the_token_that_reaches_it() -> None:
    sequence = member(max_tokens=2)
    assert take(sequence, 40).finish_reason is None
    verdict = take(sequence, 41)
    assert verdict.finish_reason is FinishReason.LENGTH
    assert verdict.events


def test_the_request_limit_counts_prompt_and_answer() -> None:
    sequence = member()
    assert take(sequence, 40, limit=5).finish_reason is None
    assert take(sequence, 40, limit=5).finish_reason is FinishReason.LENGTH


def test_no_token_and_a_foreign_token_are_failures_of_their_own() -> None:
    kinds = [take(member(), token).failure for token in (None, VOCABULARY_SIZE, -1)]
    assert [failure.kind for failure in kinds if failure] == [
        FailureKind.SAMPLER_FAILED,
        FailureKind.ENGINE_FAILED,
        FailureKind.ENGINE_FAILED,
    ]


def test_nothing_held_back_is_no_event() -> None:
    ended = Stopping(ScriptedVocabulary(), VOCABULARY_SIZE, 100).ended(member(), FinishReason.STOP)
    assert (ended.events, ended.finish_reason) == ((), FinishReason.STOP)


# Stop rules


def ruled(*strings: str, max_tokens: int = 9, **others: Any) -> MemberSequence:
    stops = StopRules(StopStrings(strings) if strings else None, **others)
    request = Submit("k", (1, 2, 3), max_tokens, SamplingParameters(), 0, 1, stops=stops)
    return MemberSequence.of(request, GreedySampler())


def tokens_of(text: str) -> list[int]:
    return [ord(character) - 33 for character in text]


def take_all(sequence: MemberSequence, tokens: list[int]) -> tuple[list[str], TokenVerdict]:
    texts = []
    verdict = TokenVerdict()
    for token in tokens:
        assert verdict.finish_reason is None, "the answer went on"
        verdict = take(sequence, token)
        texts += [event.text for event in verdict.events]
    return texts, verdict


def test_a_stop_string_over_several_tokens_is_held_cut_and_counted() -> None:
    sequence = ruled("EF")
    texts, verdict = take_all(sequence, tokens_of("DEF"))
    assert texts == ["D", "", ""]
    assert (verdict.finish_reason, verdict.matched_stop) == (FinishReason.STOP, "EF")
    assert sequence.usage.content_tokens == 3


def test_what_was_held_is_sent_when_the_model_or_a_limit_ends_the_answer() -> None:
    texts, verdict = take_all(ruled("EF"), [*tokens_of("DE"), END_TOKEN])
    assert texts == ["D", "", "E"]
    assert (verdict.finish_reason, verdict.matched_stop) == (FinishReason.STOP, None)
    texts, verdict = take_all(ruled("EF", max_tokens=2), tokens_of("DE"))
    assert texts == ["D", "", "E"]
    assert (verdict.finish_reason, verdict.matched_stop) == (FinishReason.LENGTH, None)


def test_a_stop_string_with_the_last_possible_token_is_a_stop() -> None:
    _, verdict = take_all(ruled("E", max_tokens=2), tokens_of("DE"))
    assert (verdict.finish_reason, verdict.matched_stop) == (FinishReason.STOP, "E")


def test_a_stop_string_that_is_complete_before_min_tokens_is_ordinary_text() -> None:
    texts, verdict = take_all(ruled("D", min_tokens=3), tokens_of("DEFD"))
    assert "".join(texts) == "DEF"
    assert verdict.matched_stop == "D"


def test_a_stop_token_is_counted_and_has_no_text() -> None:
    sequence = ruled(token_ids=frozenset({40}))
    texts, verdict = take_all(sequence, [32, 40])
    assert texts == ["A", ""]
    assert (verdict.finish_reason, verdict.matched_stop, sequence.answer_tokens) == (FinishReason.STOP, 40, 2)
    assert take_all(ruled(token_ids=frozenset({40}), keeps_match=True), [32, 40])[0] == ["A", "I"]


def test_before_a_stop_token_what_was_held_is_sent() -> None:
    assert take_all(ruled("DEF", token_ids=frozenset({40})), [*tokens_of("DE"), 40])[0] == ["", "", "DE"]


def test_an_end_token_among_the_stop_tokens_is_one_of_them() -> None:
    sequence = ruled(token_ids=frozenset({END_TOKEN}))
    _, verdict = take_all(sequence, [END_TOKEN])
    assert (verdict.matched_stop, sequence.answer_tokens) == (END_TOKEN, 1)


def test_ignoring_the_end_makes_end_and_stop_tokens_ordinary_ones() -> None:
    sequence = ruled("Z", token_ids=frozenset({40}), ignores_end=True)
    _, verdict = take_all(sequence, [END_TOKEN, 40, *tokens_of("Z")])
    assert (verdict.matched_stop, sequence.answer_tokens) == ("Z", 3)


def test_before_min_tokens_nothing_that_ends_the_answer_can_be_drawn() -> None:
    stopping = Stopping(ScriptedVocabulary(), VOCABULARY_SIZE, 100)
    sequence = ruled(token_ids=frozenset({40}), min_tokens=2)
    drawable = []
    for _ in range(3):
        row = ScriptedRow(0)
        stopping.forbid_ends(sequence, row)
        allowed = frozenset(range(VOCABULARY_SIZE)) if row.allowed is None else row.allowed
        drawable.append((END_TOKEN in allowed, 40 in allowed))
        take(sequence, 32)
    assert drawable == [(False, False), (False, True), (True, True)]  # a stop token is a token of the answer


class SpelledVocabulary(ScriptedVocabulary):
    """Tokens from 80 on are control tokens."""

    def token_piece(self, token: int) -> bytes:
        return b"" if token >= 80 else super().token_piece(token)


@pytest.mark.parametrize(
    ("shows", "spaces", "expected"), [(False, True, "AB"), (True, False, "A<80><81>B"), (True, True, "A<80> <81>B")]
)
def test_control_tokens_have_text_where_it_was_asked_for(shows: bool, spaces: bool, expected: str) -> None:
    stopping = Stopping(SpelledVocabulary(), VOCABULARY_SIZE, 100)
    sequence = ruled(shows_special=shows, spaces_special=spaces)
    events = [event for token in (32, 80, 81, 33) for event in stopping.take_token(sequence, token).events]
    assert "".join(event.text for event in events) == expected


def test_forced_tokens_behind_a_stop_string_are_dropped() -> None:
    sequence = ruled("DE")
    sequence.constraint = ForcedRun(tokens_of("EFG"))
    verdict = take(sequence, *tokens_of("D"))
    assert [event.text for event in verdict.events] == ["", ""]
    assert (verdict.matched_stop, sequence.answer_tokens) == ("DE", 2)


@dataclass
class ForcedRun:
    """After the first token these follow."""

    run: list[int]
    failed: bool = False
    is_finished: bool = False
    temperature: float | None = None

    def mask(self, logits: object) -> bool:
        return True

    def allows(self, token: int) -> bool:
        return True

    def accept(self, token: int) -> bool:
        return True

    def take_forced(self, limit: int) -> list[int]:
        return self.run[:limit]
