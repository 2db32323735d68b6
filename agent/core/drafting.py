"""Tokens that are guessed ahead and evaluated beside an answer's newest one: each right guess saves a step.

A guess is never believed. Each token is sampled from its own row of logits, with the mask, penalties and draw that it
would have had anyway; a guess only says what that row may be computed from before it is known. So answers stay what
they are, and what was guessed wrong leaves the memory again.

Only constrained answers are guessed: they repeat their form. The constraint is not asked about a guess. That would not
make guesses faster, and what breaks or is spent in a matcher on the way would end the request. Where the memory cannot
be cut (recurrent models) nobody is guessed.
"""

from collections.abc import Sequence
from dataclasses import replace

from agent.core.backend import PlannedRun
from agent.core.batch_plan import MOST_LOGITS_ROWS
from agent.core.prompt_lookup import PromptLookup
from agent.core.sequence import MemberSequence

DRAFT_TOKENS = 15
"""Chosen among 3, 7 and 15 on two cores, with the constraints of the benchmark: four answers gained most with 15; one
answer of the large vocabulary gained up to a tenth more with 7. Where each further answer took one away, a grammar
with eight answers lost 7 % though nearly all guesses were right; with two it gained 6 %."""

Planned = Sequence[tuple[MemberSequence, PlannedRun]]


class Drafting:
    """Shares a step's draft tokens out, and keeps count of them."""

    def __init__(self, draft_tokens: int, request_limit_tokens: int) -> None:
        """`draft_tokens`: most in a step with one row of logits; each further row takes two away."""
        self._draft_tokens = draft_tokens
        self._request_limit_tokens = request_limit_tokens
        self.drafted_tokens = 0
        self.accepted_tokens = 0

    def begin(self, sequence: MemberSequence) -> None:
        """Let a new member be guessed, where that can be. Log-probabilities come from steps of one token."""
        if self._draft_tokens and sequence.constraint is not None and sequence.logprobs is None:
            sequence.lookup = PromptLookup()

    def lengthen(self, planned: Planned, room: int) -> list[PlannedRun]:
        """The runs with guesses after those that end with a member's newest token. `room`: rows and cells to spare."""
        outputs = sum(run.wants_logits for _, run in planned)
        left = min(room, self._draft_tokens - 2 * (outputs - 1), MOST_LOGITS_ROWS - outputs)
        guessable = sum(_may_be_guessed(*pair) for pair in planned) if left > 0 else 0
        runs = []
        for sequence, run in planned:
            if left > 0 and _may_be_guessed(sequence, run):
                # After the last token that the answer may have nothing is to be computed: a position past the
                # request limit may be one that the model does not have.
                most = min(-(-left // guessable), sequence.room(self._request_limit_tokens) - 1)
                guess = guess_of(sequence, most) if most > 0 else ()
                left -= len(guess)
                guessable -= 1
                run = replace(run, tokens=(*run.tokens, *guess), wants_logits=1 + len(guess))
            runs.append(run)
        return runs

    def judge(self, sequence: MemberSequence, drafted: int, accepted: int) -> None:
        """Of `drafted` guesses the first `accepted` are tokens of the answer now."""
        self.drafted_tokens += drafted
        self.accepted_tokens += accepted
        if drafted and sequence.lookup is not None:
            sequence.lookup.judge(drafted, accepted)


def _may_be_guessed(sequence: MemberSequence, run: PlannedRun) -> bool:
    return sequence.lookup is not None and run.first_position + len(run.tokens) == len(sequence.tokens)


def guess_of(sequence: MemberSequence, most: int) -> Sequence[int]:
    """What the lookup names, at most `most` tokens."""
    return () if sequence.lookup is None else sequence.lookup.guess(sequence.tokens, most)
