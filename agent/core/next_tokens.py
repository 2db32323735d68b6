"""From rows of logits to an answer's next tokens: what the model said is read, masked, drawn from, and taken."""

from collections.abc import Sequence
from dataclasses import replace

from agent.core.backend import LogitsRow, PlannedRun
from agent.core.events import TokensCommitted
from agent.core.logprobs import TokenLogprobs
from agent.core.masking import mask_row
from agent.core.sequence import MemberSequence
from agent.core.stopping import CONSTRAINT_BROKE, Stopping, TokenVerdict


class NextTokens:
    """One token from the row of an answer's newest token, and one more for each guessed token that came true."""

    def __init__(self, logprobs: TokenLogprobs, stopping: Stopping) -> None:
        self._logprobs = logprobs
        self._stopping = stopping

    def take(self, sequence: MemberSequence, run: PlannedRun, rows: Sequence[LogitsRow]) -> TokenVerdict:
        """`rows`: those of the run's last tokens; the run holds all of the answer, and guesses of what follows it."""
        start = run.first_position
        before_rows = start + len(run.tokens) - len(rows)
        events: tuple[TokensCommitted, ...] = ()
        while True:
            known = len(sequence.tokens)
            verdict = self._next(sequence, rows[known - 1 - before_rows])
            events += verdict.events
            news = tuple(sequence.tokens[known:])
            if verdict.ends or news != tuple(run.tokens[known - start : known - start + len(news)]):
                return verdict if len(events) == len(verdict.events) else replace(verdict, events=events)

    def _next(self, sequence: MemberSequence, row: LogitsRow) -> TokenVerdict:
        """Read what the model said, then mask: penalties and truncations choose among what may follow."""
        reading = None if sequence.logprobs is None else self._logprobs.read(row, sequence.logprobs)
        if sequence.constraint is not None:
            sequence.sampler.use_temperature(sequence.constraint.temperature)
        if not mask_row(sequence, row):
            return TokenVerdict(failure=CONSTRAINT_BROKE)
        if sequence.stops is not None:
            self._stopping.forbid_ends(sequence, row)
        token = sequence.sampler.sample(row, sequence.answer_tokens)
        if reading is None or token is None or sequence.logprobs is None:
            return self._stopping.take_token(sequence, token)
        return self._stopping.take_token(sequence, token, self._logprobs.place(reading, token, sequence.logprobs))
