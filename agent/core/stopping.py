"""What a sampled token does to an answer: it grows, it ends, or the token is one that must not be."""

from dataclasses import dataclass

from agent.core.backend import Vocabulary
from agent.core.events import TokensCommitted
from agent.core.sequence import MemberSequence
from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    """`event` is what the client gets to see of it; at most one of `finish_reason` and `failure` is set."""

    event: TokensCommitted | None = None
    finish_reason: FinishReason | None = None
    failure: Failure | None = None


class Stopping:
    """The ends of an answer: the model's own, `max_tokens`, and the request limit (prompt plus answer)."""

    def __init__(self, vocabulary: Vocabulary, vocabulary_size: int, request_limit_tokens: int) -> None:
        self._vocabulary = vocabulary
        self._vocabulary_size = vocabulary_size
        self._request_limit_tokens = request_limit_tokens

    def take_token(self, sequence: MemberSequence, token: int | None) -> TokenVerdict:
        """Append the token to the sequence unless it ends the answer. None: the sampler found no token."""
        if token is None:
            return TokenVerdict(failure=_NO_TOKEN)
        if not 0 <= token < self._vocabulary_size:
            return TokenVerdict(failure=_FOREIGN_TOKEN)
        if self._vocabulary.is_end_of_generation(token):
            return TokenVerdict(remaining_text(sequence), FinishReason.STOP)
        index = sequence.answer_tokens
        sequence.tokens.append(token)
        sequence.sampler.observe((token,))
        text = sequence.text.push(self._vocabulary.token_piece(token))
        is_full = self._is_full(sequence)
        if is_full:
            text += sequence.text.flush()
        event = TokensCommitted(sequence.key, index, (token,), text, Channel.CONTENT)
        return TokenVerdict(event, FinishReason.LENGTH if is_full else None)

    def _is_full(self, sequence: MemberSequence) -> bool:
        return sequence.answer_tokens >= sequence.max_tokens or len(sequence.tokens) >= self._request_limit_tokens


def remaining_text(sequence: MemberSequence) -> TokensCommitted | None:
    """Text that was held back and belongs to tokens already sent; None when there is none."""
    text = sequence.text.flush()
    if not text:
        return None
    return TokensCommitted(sequence.key, sequence.answer_tokens, (), text, Channel.CONTENT)


_NO_TOKEN = Failure(FailureKind.SAMPLER_FAILED, "No token can be chosen: the model's output holds no usable number.")
_FOREIGN_TOKEN = Failure(FailureKind.ENGINE_FAILED, "The sampler chose a token outside the model's vocabulary.")
