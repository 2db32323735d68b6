"""What a sampled token does to an answer: it grows, also by what a constraint forces next, it ends, or the token is
one that must not be."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.core.backend import Vocabulary
from agent.core.events import TokensCommitted
from agent.core.sequence import MemberSequence
from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason

MOST_FORCED_TOKENS = 64
"""Taken from a constraint at once. A run may be huge (100,000 times the same letter). Each token of it is evaluated
before the next one is sampled, and one frame reports all that a step brought, also when every slot has such a run."""


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    """`events` are what the client gets to see of it, one for each token: a native stream has one document for each,
    forced or not. At most one of `finish_reason` and `failure` is set."""

    events: tuple[TokensCommitted, ...] = ()
    finish_reason: FinishReason | None = None
    failure: Failure | None = None


class Stopping:
    """The ends of an answer: the model's own, its constraint's, `max_tokens`, and the request limit (prompt plus
    answer). `stop` of a constrained answer means that it is whole; one that its limit cut says `length`."""

    def __init__(self, vocabulary: Vocabulary, vocabulary_size: int, request_limit_tokens: int) -> None:
        self._vocabulary = vocabulary
        self._vocabulary_size = vocabulary_size
        self._request_limit_tokens = request_limit_tokens

    def begin(self, sequence: MemberSequence) -> TokenVerdict:
        """Before anything is evaluated: append what the constraint forces at once; there may be nothing else to do."""
        if sequence.constraint is None:
            return TokenVerdict()
        sequence.newest_tokens = self._append_forced(sequence)
        ending = self._ending(sequence)
        return TokenVerdict() if ending is None else self._verdict(sequence, ending)

    def take_token(self, sequence: MemberSequence, token: int | None) -> TokenVerdict:
        """Append the token, and what must follow it, unless it ends the answer. None: the sampler found no token."""
        constraint = sequence.constraint
        if token is None:
            return TokenVerdict(failure=_NO_TOKEN if constraint is None else CONSTRAINT_BROKE)
        if not 0 <= token < self._vocabulary_size:
            return TokenVerdict(failure=_FOREIGN_TOKEN)
        if self._vocabulary.is_end_of_generation(token):  # of a constrained answer only where its mask allowed it
            return self._verdict(sequence, FinishReason.STOP)
        if constraint is not None and not constraint.accept(token):
            return TokenVerdict(failure=CONSTRAINT_BROKE)
        _append(sequence, (token,))
        sequence.newest_tokens = 1 + self._append_forced(sequence)
        return self._verdict(sequence, self._ending(sequence))

    def last_words(self, sequence: MemberSequence) -> tuple[TokensCommitted, ...]:
        """What there is still to tell of an answer that ends now: tokens not reported yet, text that was held back."""
        events = self._report(sequence)
        rest = sequence.text.flush()
        if rest:
            events += (TokensCommitted(sequence.key, sequence.reported_tokens, (), rest, Channel.CONTENT),)
        return events

    # Private

    def _append_forced(self, sequence: MemberSequence) -> int:
        constraint = sequence.constraint
        room = min(self._room(sequence), MOST_FORCED_TOKENS)
        if constraint is None or room <= 0 or constraint.failed or constraint.is_finished:
            return 0
        forced = constraint.take_forced(room)
        _append(sequence, forced)
        return len(forced)

    def _room(self, sequence: MemberSequence) -> int:
        """By how many tokens the answer may still grow."""
        wanted = sequence.max_tokens - sequence.answer_tokens
        return min(wanted, self._request_limit_tokens - len(sequence.tokens))

    def _ending(self, sequence: MemberSequence) -> FinishReason | Failure | None:
        constraint = sequence.constraint
        if constraint is not None:
            if constraint.failed:
                return CONSTRAINT_BROKE
            if constraint.is_finished:
                return FinishReason.STOP  # also with its last possible token: nothing was cut
        return FinishReason.LENGTH if self._room(sequence) <= 0 else None

    def _verdict(self, sequence: MemberSequence, ending: FinishReason | Failure | None) -> TokenVerdict:
        if isinstance(ending, Failure):
            return TokenVerdict(failure=ending)
        if ending is None:
            return TokenVerdict(self._report(sequence))
        return TokenVerdict(self.last_words(sequence), ending)

    def _report(self, sequence: MemberSequence) -> tuple[TokensCommitted, ...]:
        first = sequence.reported_tokens
        tokens = sequence.tokens[sequence.prompt_tokens + first :]
        sequence.reported_tokens += len(tokens)
        return tuple(
            TokensCommitted(sequence.key, index, (token,), self._text_of(sequence, token), Channel.CONTENT)
            for index, token in enumerate(tokens, first)
        )

    def _text_of(self, sequence: MemberSequence, token: int) -> str:
        return sequence.text.push(self._vocabulary.token_piece(token))


def _append(sequence: MemberSequence, tokens: Sequence[int]) -> None:
    sequence.tokens.extend(tokens)
    sequence.sampler.observe(tokens)


CONSTRAINT_BROKE = Failure(
    FailureKind.GRAMMAR_REJECTED_OUTPUT,
    "The grammar could not be followed any further (it leaves no token, or became too complex on the way); "
    "what was generated is incomplete. Simplify the grammar.",
    "grammar",
)
_NO_TOKEN = Failure(FailureKind.SAMPLER_FAILED, "No token can be chosen: the model's output holds no usable number.")
_FOREIGN_TOKEN = Failure(FailureKind.ENGINE_FAILED, "The sampler chose a token outside the model's vocabulary.")
