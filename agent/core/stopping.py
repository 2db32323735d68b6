"""What a sampled token does to an answer: it grows, also by what a constraint forces next, it ends, or the token is
one that must not be."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.core.answer_text import AnswerText
from agent.core.backend import LogitsRow, Vocabulary
from agent.core.events import TokensCommitted
from agent.core.sequence import MemberSequence
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason
from shared.logprobs import LogprobPlace

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
    matched_stop: str | int | None = None

    @property
    def ends(self) -> bool:
        """Whether the answer is over."""
        return self.finish_reason is not None or self.failure is not None


class Stopping:
    """The ends of an answer: the model's own, its constraint's, those of its stop rules, `max_tokens`, and the request
    limit (prompt plus answer). `stop` of a constrained answer means that it is whole, or that a stop rule ended it;
    one that its limit cut says `length`."""

    def __init__(self, vocabulary: Vocabulary, vocabulary_size: int, request_limit_tokens: int) -> None:
        self._vocabulary = vocabulary
        self._vocabulary_size = vocabulary_size
        self._request_limit_tokens = request_limit_tokens
        self._text = AnswerText(vocabulary)
        self.forced_tokens = 0  # that constraints have appended

    def begin(self, sequence: MemberSequence) -> TokenVerdict:
        """Before anything is evaluated: append what the constraint forces at once; there may be nothing else to do."""
        if sequence.constraint is None:
            return TokenVerdict()
        sequence.newest_tokens = self._append_forced(sequence)
        ending = self._ending(sequence)
        return TokenVerdict() if ending is None else self._verdict(sequence, ending)

    def forbid_ends(self, sequence: MemberSequence, row: LogitsRow) -> None:
        """Before `min_tokens`, make impossible, in place, what would end the answer. A constraint that allows nothing
        else is complete, and its end stays possible."""
        stops = sequence.stops
        if stops is None or stops.ignores_end:
            return
        missing = stops.min_tokens - sequence.answer_tokens
        if missing > 0:
            sequence.sampler.forbid(row, self._vocabulary.end_of_generation_tokens)
        if missing > 1 and stops.token_ids:  # the token that ends the answer is one of its tokens
            sequence.sampler.forbid(row, stops.token_ids)

    def take_token(
        self, sequence: MemberSequence, token: int | None, logprobs: LogprobPlace | None = None
    ) -> TokenVerdict:
        """Append the token, and what must follow it, unless it ends the answer. None: the sampler found no token."""
        constraint = sequence.constraint
        if token is None:
            return TokenVerdict(failure=_NO_TOKEN if constraint is None else CONSTRAINT_BROKE)
        if not 0 <= token < self._vocabulary_size:
            return TokenVerdict(failure=_FOREIGN_TOKEN)
        # Of a constrained answer the end comes only where its mask allowed it, and nothing can follow it.
        if self._vocabulary.is_end_of_generation(token) and (constraint is not None or _is_end(sequence, token)):
            return self.ended(sequence, FinishReason.STOP)
        if constraint is not None and not constraint.accept(token):
            return TokenVerdict(failure=CONSTRAINT_BROKE)
        _append(sequence, (token,))
        sequence.newest_tokens = 1 + self._append_forced(sequence)
        return self._verdict(sequence, self._ending(sequence), logprobs)

    def ended(self, sequence: MemberSequence, reason: FinishReason) -> TokenVerdict:
        """The answer ends now, with tokens not reported yet and text that was held back; a stop rule that matches in
        these ended it earlier."""
        return self._verdict(sequence, reason)

    # Private

    def _append_forced(self, sequence: MemberSequence) -> int:
        constraint = sequence.constraint
        room = min(sequence.room(self._request_limit_tokens), MOST_FORCED_TOKENS)
        if constraint is None or room <= 0 or constraint.failed or constraint.is_finished:
            return 0
        if sequence.logprobs is not None:
            return 0  # each token needs the logits before it, so the mask forces them one by one
        forced = constraint.take_forced(room)
        _append(sequence, forced)
        self.forced_tokens += len(forced)
        return len(forced)

    def _ending(self, sequence: MemberSequence) -> FinishReason | Failure | None:
        constraint = sequence.constraint
        if constraint is not None:
            if constraint.failed:
                return CONSTRAINT_BROKE
            if constraint.is_finished:
                return FinishReason.STOP  # also with its last possible token: nothing was cut
        return FinishReason.LENGTH if sequence.room(self._request_limit_tokens) <= 0 else None

    def _verdict(
        self,
        sequence: MemberSequence,
        ending: FinishReason | Failure | None,
        logprobs: LogprobPlace | None = None,
    ) -> TokenVerdict:
        if isinstance(ending, Failure) and sequence.stops is None:
            return TokenVerdict(failure=ending)
        report = self._text.report(sequence, logprobs)
        if report.matched_stop is not None:  # forced tokens behind it are dropped, and with them what they led to
            return TokenVerdict(report.events, FinishReason.STOP, matched_stop=report.matched_stop)
        if isinstance(ending, Failure):
            return TokenVerdict(report.events, failure=ending)
        if ending is None:
            return TokenVerdict(report.events)
        return TokenVerdict(report.events + self._text.flush(sequence), ending)


def _is_end(sequence: MemberSequence, token: int) -> bool:
    """Whether an end token of a free answer ends it as the model's own end: not counted, never shown."""
    stops = sequence.stops
    return stops is None or not (stops.ignores_end or token in stops.token_ids)


def _append(sequence: MemberSequence, tokens: Sequence[int]) -> None:
    sequence.tokens.extend(tokens)
    sequence.sampler.observe(tokens)


CONSTRAINT_BROKE = Failure(
    FailureKind.GRAMMAR_REJECTED_OUTPUT,
    "The grammar could not be followed any further (it leaves no token, or became too complex on the way); "
    "what was generated is incomplete. Simplify the grammar.",
    "grammar",
)
DECODE_FAILED = Failure(FailureKind.ENGINE_FAILED, "The engine could not evaluate this request.")
_NO_TOKEN = Failure(FailureKind.SAMPLER_FAILED, "No token can be chosen: the model's output holds no usable number.")
_FOREIGN_TOKEN = Failure(FailureKind.ENGINE_FAILED, "The sampler chose a token outside the model's vocabulary.")
