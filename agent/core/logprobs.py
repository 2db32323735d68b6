"""Log-probabilities of tokens as they are reported: of the prompt's tokens while it is evaluated, of the answer's as
they are sampled. The row at a token tells of the token after it; the first token of a prompt has none."""

from collections.abc import Sequence

from agent.core.backend import Backend, LogitsRow, LogprobReading, LogprobsWanted, PlannedRun, Vocabulary
from agent.core.sequence import MemberSequence
from shared.logprobs import LogprobEntry, LogprobPlace


class TokenLogprobs:
    """Reads rows through the backend and names tokens by the vocabulary."""

    def __init__(self, backend: Backend, vocabulary: Vocabulary) -> None:
        self._read = backend.read_logprobs
        self._vocabulary = vocabulary

    def read(self, row: LogitsRow, wanted: LogprobsWanted) -> LogprobReading:
        """What the model said, before a constraint or the sampler changes the row."""
        return self._read(row, wanted)

    def place(self, reading: LogprobReading, token: int, wanted: LogprobsWanted) -> LogprobPlace:
        """What is told of this token."""
        return LogprobPlace(
            LogprobEntry(token, reading.of(token), self._piece(token, wanted)),
            self._entries(reading.top, wanted),
            self._entries(reading.asked, wanted),
        )

    def of_prompt(
        self, sequence: MemberSequence, run: PlannedRun, rows: Sequence[LogitsRow]
    ) -> tuple[LogprobPlace, ...]:
        """What the run, which is in memory now, tells of the prompt; the sequence owes so much less afterwards.

        `rows`: those of the run's last tokens, as many as it wanted.
        """
        wanted, first_owed = sequence.logprobs, sequence.next_logprob
        if wanted is None or first_owed is None:
            return ()
        places: list[LogprobPlace] = []
        stop = run.first_position + len(run.tokens)
        if first_owed == 0:
            places.append(LogprobPlace(LogprobEntry(sequence.tokens[0], None, self._piece(sequence.tokens[0], wanted))))
        first_told = stop - len(rows) + 1
        for token, row in zip(sequence.tokens[first_told : sequence.prompt_tokens], rows, strict=False):
            places.append(self.place(self._read(row, wanted), token, wanted))
        if rows:
            sequence.next_logprob = stop + 1 if stop + 1 < sequence.prompt_tokens else None
        return tuple(places)

    def _entries(self, pairs: Sequence[tuple[int, float]], wanted: LogprobsWanted) -> tuple[LogprobEntry, ...]:
        return tuple(LogprobEntry(token, logprob, self._piece(token, wanted)) for token, logprob in pairs)

    def _piece(self, token: int, wanted: LogprobsWanted) -> bytes:
        if not wanted.with_text:
            return b""
        return self._vocabulary.token_piece(token) or self._vocabulary.token_text(token).encode()
