"""What one sampled token does to an answer."""

from agent.core.commands import Submit
from agent.core.events import TokensCommitted
from agent.core.sequence import MemberSequence
from agent.core.stopping import Stopping, TokenVerdict
from shared.failures import FailureKind
from shared.generation import Channel, FinishReason, SamplingParameters
from tests.support.scripted_backend import END_TOKEN, VOCABULARY_SIZE, GreedySampler, ScriptedVocabulary


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
    assert Stopping(ScriptedVocabulary(), VOCABULARY_SIZE, 100).last_words(member()) == ()
