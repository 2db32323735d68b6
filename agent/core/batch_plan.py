"""Which rows the next decode evaluates: members that generate first, then chunks of prompts.

One that generates has one pending token, the sampled one, and perhaps those that its constraint forces after it.

Pure counting: whether there are cells for the rows is decided elsewhere (`residency`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.core.backend import PlannedRun
from agent.core.sequence import MemberSequence

MOST_LOGITS_ROWS = 32
"""Rows with logits in one step: each costs vocabulary x 4 bytes and one pass of sampling."""


@dataclass(frozen=True, slots=True)
class StepBudget:
    """`rows` at most in one decode; of them `prompt_rows` for prompts and `forced_rows` for what generating members
    have beside their first pending token, so that a step stays short. While nobody generates, who would
    have to wait, prompts get `lone_prompt_rows` where that is more."""

    rows: int
    prompt_rows: int
    forced_rows: int = 0
    lone_prompt_rows: int = 0
    prompts_first: bool = False
    logits_rows: int = MOST_LOGITS_ROWS


@dataclass(slots=True)
class ChosenRows:
    """What a step would evaluate: pairs of sequence and rows. `has_starved_prompt`: one is ready and got none."""

    rows: list[tuple[MemberSequence, int]] = field(default_factory=list)
    has_starved_prompt: bool = False


def choose_rows(attached: Iterable[MemberSequence], budget: StepBudget) -> ChosenRows:
    """Share the budget out. Where it is too small for all, those that waited longest go first."""
    ready: list[MemberSequence] = []
    prompts: list[MemberSequence] = []
    for sequence in attached:
        (ready if sequence.is_generating else prompts).append(sequence)
    ready.sort(key=lambda sequence: (sequence.last_step, sequence.rank))
    prompts.sort(key=lambda sequence: sequence.rank)
    filling = _Filling(budget, chunk=budget.prompt_rows if ready else max(budget.prompt_rows, budget.lone_prompt_rows))
    if budget.prompts_first:
        filling.add_prompts(prompts)
    filling.add_ready(ready)
    if not budget.prompts_first:
        filling.add_prompts(prompts)
    return ChosenRows(filling.rows, bool(prompts) and not filling.has_prompt)


def planned_run(sequence: MemberSequence, rows: int) -> PlannedRun:
    """The next `rows` pending tokens. The last pending one brings logits, and so does each before a token of the
    prompt whose log-probability is owed. The sequence must have an id."""
    assert sequence.sequence_id is not None
    start, stop = sequence.evaluated, sequence.evaluated + rows
    tokens = tuple(sequence.tokens[start:stop])
    return PlannedRun(sequence.sequence_id, tokens, start, sequence.logits_rows(rows))


class _Filling:
    """One step being filled."""

    def __init__(self, budget: StepBudget, chunk: int) -> None:
        self._rows_left = budget.rows
        self._logits_left = budget.logits_rows
        self._chunk = chunk
        self._forced_left = budget.forced_rows
        self.rows: list[tuple[MemberSequence, int]] = []
        self.has_prompt = False

    def add_ready(self, ready: list[MemberSequence]) -> None:
        """Each gets a row before any gets several."""
        count = min(self._rows_left, self._logits_left, len(ready))
        self._rows_left -= count
        for sequence in ready[:count]:
            more = min(sequence.pending_tokens - 1, self._forced_left, self._rows_left)
            self._forced_left -= more
            self._rows_left -= more
            self._logits_left -= 1 + more == sequence.pending_tokens
            self.rows.append((sequence, 1 + more))

    def add_prompts(self, prompts: list[MemberSequence]) -> None:
        """Whole chunks, in order: splitting a prompt elsewhere would move its logits a little. Only the first may be
        split, where generating members leave no room for a whole one."""
        room = min(self._rows_left, self._chunk)
        for sequence in prompts:
            rows = min(sequence.pending_tokens, self._chunk)
            if rows > room and self.has_prompt:
                break
            rows = min(rows, room)
            rows -= max(0, sequence.logits_rows(rows) - self._logits_left)
            if rows <= 0:
                break
            self._logits_left -= sequence.logits_rows(rows)
            self._rows_left -= rows
            room -= rows
            self.rows.append((sequence, rows))
            self.has_prompt = True
