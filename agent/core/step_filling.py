"""Fills a step: rows of one adapter's members, as many as the budget and the cells allow, and guesses beside them."""

from collections.abc import Callable
from dataclasses import replace

from agent.core.adapter_turns import AdapterTurns
from agent.core.backend import BackendLimits, BatchPlan, PlannedRun
from agent.core.batch_plan import StepBudget, choose_rows, planned_run
from agent.core.drafting import Drafting
from agent.core.prefix_cache import PrefixCache
from agent.core.residency import Residency
from agent.core.sequence import MemberSequence, Phase


class StepFilling:
    """Remembers whose turn it is, who was left out, and how large a step may be."""

    def __init__(
        self,
        cache: PrefixCache,
        residency: Residency,
        drafting: Drafting,
        budget: StepBudget,
        limits: BackendLimits,
        end_at_the_edge: Callable[[MemberSequence], None],
    ) -> None:
        """`budget`: of a step without trouble. `end_at_the_edge`: for the only member with cells when there is no room
        for one more token."""
        self._cache = cache
        self._residency = residency
        self._drafting = drafting
        self._budget = budget
        self._can_cut = limits.can_share_prefixes
        self._end_at_the_edge = end_at_the_edge
        self._turns = AdapterTurns()
        self._starved: set[str | None] = set()  # adapters with a prompt that their last step had no row for
        self._most_rows = budget.rows

    def fill(self) -> BatchPlan | None:
        """A step of the adapter whose turn it is; None when nothing of it can be evaluated now, and others may."""
        adapter = self._turns.choose([one.adapter for one in self._residency.attached()])
        if runs := self._fill(adapter):
            return BatchPlan(tuple(runs), adapter)
        self._turns.done(adapter)
        return None

    def decoded(self, plan: BatchPlan) -> None:
        """The plan's decode succeeded: others may have their turn, and steps their whole size."""
        self._turns.done(plan.adapter)
        self._most_rows = self._budget.rows

    def found_no_room(self, plan: BatchPlan) -> bool:
        """Make the next step half as large; False when it had one row."""
        if plan.tokens <= 1:
            return False
        self._most_rows = plan.tokens // 2
        return True

    def _fill(self, adapter: str | None) -> list[PlannedRun]:
        """Choose rows of the adapter's members by the budget, then find cells for them, eldest member first."""
        budget = replace(self._budget, rows=self._most_rows, prompts_first=adapter in self._starved)
        chosen = choose_rows([one for one in self._residency.attached() if one.adapter == adapter], budget)
        self._starved.discard(adapter)
        if chosen.has_starved_prompt:
            self._starved.add(adapter)
        planned: list[tuple[MemberSequence, PlannedRun]] = []
        reserved = 0
        for sequence, rows in sorted(chosen.rows, key=lambda pair: pair[0].rank):
            if sequence.phase is Phase.RUNNING:  # not set aside for an elder one meanwhile
                rows = self._rows_with_cells(sequence, rows, reserved)
                reserved += rows
                if rows:
                    planned.append((sequence, planned_run(sequence, rows)))
        spare = min(self._most_rows, self._cache.free_cells) - reserved if self._can_cut else 0
        return self._drafting.lengthen(planned, spare)

    def _rows_with_cells(self, sequence: MemberSequence, rows: int, reserved: int) -> int:
        """How many of `rows` there are cells for, beside those `reserved` for its elders."""
        if self._residency.make_room(reserved + rows, sequence):
            return rows
        if free := self._cache.free_cells - reserved:
            return free
        if len(self._residency.attached()) == 1:
            self._end_at_the_edge(sequence)
        elif sequence.is_generating:
            self._residency.set_aside(sequence)  # it is the youngest
        return 0
