"""The engine's decisions: which tokens of which members the next decode evaluates, and what its outcome means.

Pure: no clock, thread or library. The driver (`engine.step`) calls `handle`, `plan_next_batch`, decodes, calls
`commit`, and publishes `take_events`. Members live in one table and leave it exactly once, with `MemberEnded`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agent.core.admission import PROMPT_FILLS_CONTEXT, refusal
from agent.core.backend import Backend, BatchPlan, DecodeOutcome, LogitsRow, PlannedRun, Vocabulary
from agent.core.batch_plan import StepBudget
from agent.core.commands import Cancel, CancelAll, EngineCommand, Submit
from agent.core.drafting import Drafting
from agent.core.events import EngineEvent, PromptLogprobs, PromptProgress, SchedulerStatistics
from agent.core.logprobs import TokenLogprobs
from agent.core.member_table import Ending, MemberTable
from agent.core.next_tokens import NextTokens
from agent.core.prefix_cache import PrefixCache
from agent.core.residency import Residency
from agent.core.sequence import MemberSequence, Phase
from agent.core.step_filling import StepFilling
from agent.core.stopping import DECODE_FAILED, Stopping, TokenVerdict
from shared.failures import Failure
from shared.generation import FinishReason, Usage

SIGN_OF_LIFE_STEPS = 8
"""How often members that a step left out report progress all the same, so that nobody takes them for hung."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """slots: members that may run at once. prompt_chunk_tokens: most prompt tokens in one step (chosen at load);
    lone_prompt_chunk_tokens: while no member generates. prefix_store_bytes: most host memory for idle prefixes, 0
    for none. draft_tokens: most guessed tokens in one step, 0 for none."""

    slots: int
    prompt_chunk_tokens: int
    lone_prompt_chunk_tokens: int
    prefix_store_bytes: int = 0
    draft_tokens: int = 0


class Scheduler:
    """Continuous batching over one context."""

    def __init__(self, backend: Backend, vocabulary: Vocabulary, settings: SchedulerSettings) -> None:
        self._limits = backend.limits
        self._new_sampler = backend.new_sampler
        self._logprobs = TokenLogprobs(backend, vocabulary)
        slots = min(settings.slots, self._limits.sequence_ids)
        self._table = MemberTable()
        self._cache = PrefixCache(backend, self._limits, slots, settings.prefix_store_bytes)
        self._residency = Residency(self._cache, self._table.members, slots, settings.prompt_chunk_tokens)
        self._stopping = Stopping(vocabulary, self._limits.vocabulary_size, self._limits.request_limit_tokens)
        self._next_tokens = NextTokens(self._logprobs, self._stopping)
        self._drafting = Drafting(settings.draft_tokens, self._limits.request_limit_tokens)
        budget = StepBudget(
            self._limits.batch_tokens,
            settings.prompt_chunk_tokens,
            forced_rows=settings.prompt_chunk_tokens // 2,
            lone_prompt_rows=settings.lone_prompt_chunk_tokens,
        )
        self._filling = StepFilling(
            self._cache, self._residency, self._drafting, budget, self._limits, self._end_at_the_edge
        )
        self._trouble: DecodeOutcome | None = None  # how the last decode failed, until one succeeds
        self._steps = self._evaluated_prompt_tokens = self._generated_tokens = 0

    def __repr__(self) -> str:
        counts = {phase: len(self._residency.in_phase(phase)) for phase in Phase}
        others = "".join(f", {counts[one]} {one.value}" for one in (Phase.WAITING, Phase.SET_ASIDE) if counts[one])
        cells = f"{self._cache.used_cells}/{self._limits.context_cells} cells"
        return f"<Scheduler {counts[Phase.RUNNING]} running{others} | {cells}>"

    # Commands

    def handle(self, command: EngineCommand) -> None:
        """Take one order, between two steps. Raises ValueError for a key that is open already (a bug)."""
        match command:
            case Submit():
                self._submit(command)
            case Cancel(key):
                if sequence := self._table.members.get(key):
                    self._end(sequence, FinishReason.CANCELLED)
            case CancelAll(failure):
                for sequence in list(self._table.members.values()):
                    self._end(sequence, failure)

    def abandon(self, failure: Failure) -> None:
        """The engine ends: end every member without touching any cell."""
        self._cache.forget_stored()
        for sequence in list(self._table.members.values()):
            self._table.close(sequence.key, failure, sequence.usage)

    def _submit(self, request: Submit) -> None:
        if failure := refusal(request, self._limits):
            self._table.refuse(request.key, failure, Usage(prompt_tokens=len(request.prompt)))
            return
        sampler = self._new_sampler(request.sampling, request.seed)
        if not request.penalises_answer_only:
            sampler.observe(request.prompt)
        sequence = MemberSequence.of(request, sampler)
        self._drafting.begin(sequence)
        self._table.add(sequence)
        self._take_over(sequence, self._stopping.begin(sequence))

    # Planning

    @property
    def has_work(self) -> bool:
        """Whether any member is open."""
        return bool(self._table.members)

    def plan_next_batch(self) -> BatchPlan | None:
        """What to decode next; None when no member is open. Starts, sets aside and ends members on the way."""
        for _ in range(4 * len(self._table.members) + 2):  # at worst every adapter's turn between two changes
            if not self._table.members:
                return None
            self._residency.start_members(may_grow=self._trouble is not DecodeOutcome.NO_KV_SLOT)
            if plan := self._filling.fill():
                self._steps += 1
                return plan
        raise RuntimeError(f"members are open and nothing can be planned: {self!r}")

    # Outcomes

    def commit(self, plan: BatchPlan, outcome: DecodeOutcome, logits: Callable[[int], LogitsRow]) -> None:
        """Take over what the decode did. `logits(i)`: row of the i-th run that wanted them; read after DECODED only."""
        planned = self._planned_members(plan)
        match outcome:
            case DecodeOutcome.DECODED:
                self._trouble = None
                self._filling.decoded(plan)
                self._commit_decoded(planned, logits)
            case DecodeOutcome.NO_KV_SLOT:
                self._trouble = outcome
                self._give_way(plan)
            case DecodeOutcome.INVALID_BATCH:
                self._fail_all(planned)
            case DecodeOutcome.FATAL if self._trouble is DecodeOutcome.FATAL:
                self._trouble = None  # these had their second try; others get their own
                self._fail_all(planned)
            case DecodeOutcome.FATAL | DecodeOutcome.ABORTED:
                self._trouble = outcome if outcome is DecodeOutcome.FATAL else self._trouble
                for sequence, run in planned:
                    self._residency.evaluated_in_part(sequence, run)

    def _planned_members(self, plan: BatchPlan) -> list[tuple[MemberSequence, PlannedRun]]:
        by_id = {sequence.sequence_id: sequence for sequence in self._residency.attached()}
        return [(by_id[run.sequence_id], run) for run in plan.runs]

    def _commit_decoded(
        self, planned: list[tuple[MemberSequence, PlannedRun]], logits: Callable[[int], LogitsRow]
    ) -> None:
        first_row = 0
        for sequence, run in planned:
            known_before = len(sequence.tokens) - sequence.newest_tokens  # also an answer that is evaluated again
            self._evaluated_prompt_tokens += max(0, min(len(run.tokens), known_before - run.first_position))
            sequence.last_step = self._steps
            rows = [logits(first_row + index) for index in range(run.wants_logits)]
            first_row += run.wants_logits
            if sequence.next_logprob is not None:
                self._tell_prompt_logprobs(sequence, run, rows)
            drafted = run.first_position + len(run.tokens) - len(sequence.tokens)
            if rows and drafted >= 0:
                verdict = self._next_tokens.take(sequence, run, rows)
                self._drafting.judge(sequence, drafted, self._residency.evaluated(sequence, run, drafted))
                self._take_over(sequence, verdict)
            else:
                self._residency.evaluated(sequence, run)
                self._table.report(PromptProgress(sequence.key, sequence.evaluated))
        if self._steps % SIGN_OF_LIFE_STEPS == 0:
            self._report_those_left_out()

    def _tell_prompt_logprobs(self, sequence: MemberSequence, run: PlannedRun, rows: list[LogitsRow]) -> None:
        if places := self._logprobs.of_prompt(sequence, run, rows):
            self._table.report(PromptLogprobs(sequence.key, places))

    def _take_over(self, sequence: MemberSequence, verdict: TokenVerdict) -> None:
        for event in verdict.events:
            self._generated_tokens += len(event.token_ids)
            self._table.report(event)
        if ending := verdict.finish_reason or verdict.failure:
            self._end(sequence, ending, verdict.matched_stop)

    def _report_those_left_out(self) -> None:
        for sequence in self._table.members.values():
            if sequence.last_step != self._steps:
                self._table.report(PromptProgress(sequence.key, sequence.evaluated))

    def _give_way(self, plan: BatchPlan) -> None:
        """Each call gives up something, so that the next plan differs and this ends."""
        if self._residency.give_way():
            return
        if not self._filling.found_no_room(plan):  # by our count there was a cell: `length` would be a lie
            self._end(self._residency.attached()[0], DECODE_FAILED)

    # Ends

    def _end_at_the_edge(self, sequence: MemberSequence) -> None:
        """The only member with cells has no room for one more token."""
        if sequence.answer_tokens:
            self._take_over(sequence, self._stopping.ended(sequence, FinishReason.LENGTH))
        else:
            self._end(sequence, PROMPT_FILLS_CONTEXT)

    def _fail_all(self, planned: list[tuple[MemberSequence, PlannedRun]]) -> None:
        for sequence, _ in planned:
            self._end(sequence, DECODE_FAILED)

    def _end(self, sequence: MemberSequence, ending: Ending, matched_stop: str | int | None = None) -> None:
        """Cells of a member that failed may hold anything, so only the others stay as idle prefixes."""
        usage = sequence.usage
        self._residency.leave(sequence, keep=isinstance(ending, FinishReason))
        self._table.close(sequence.key, ending, usage, matched_stop)

    # Reports

    def take_events(self) -> tuple[EngineEvent, ...]:
        """What happened since the last call, in order."""
        return self._table.take_events()

    def statistics(self) -> SchedulerStatistics:
        """Figures as of now."""
        phases = [sequence.phase for sequence in self._table.members.values()]
        return SchedulerStatistics(
            running=phases.count(Phase.RUNNING),
            waiting=phases.count(Phase.WAITING),
            set_aside=phases.count(Phase.SET_ASIDE),
            used_cells=self._cache.used_cells,
            context_cells=self._limits.context_cells,
            cached_tokens=self._cache.cached_tokens,
            steps=self._steps,
            evaluated_prompt_tokens=self._evaluated_prompt_tokens,
            reused_prompt_tokens=self._residency.reused_prompt_tokens,
            generated_tokens=self._generated_tokens,
            set_aside_total=self._residency.set_aside_total,
            evicted_tokens=self._cache.evicted_tokens,
            forced_tokens=self._stopping.forced_tokens,
            drafted_tokens=self._drafting.drafted_tokens,
            accepted_tokens=self._drafting.accepted_tokens,
            store=self._cache.store_statistics(),
        )

    def check_invariants(self) -> None:
        """Raises AssertionError when records, cells and counts disagree."""
        self._residency.check_invariants()
        self._table.check_invariants()
