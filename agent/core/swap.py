"""From the state that serves to the state that is wanted: prove, exchange, settle (DESIGN 3). Pure.

Rules: one operation at a time, and its result comes back as an event. The newest wanted state wins. The old model
serves until the new one is proved. A model is freed before the next is loaded, and only when no slot is in use. A load
that fails brings the old model back. `_decide` is the only place that starts anything.
"""

from agent.core import swap_events as facts
from agent.core.issues import Issues, too_many_slots
from agent.core.swap_attempts import Attempts
from agent.core.swap_need import is_in_vain
from shared.agent_status import AgentIssue, StateApplicationStatus
from shared.state_distance import Need, differs_only_in_sampling, what_is_needed

MOST_SLOTS = 255  # llama.cpp has 256 sequence ids in one context


class Swap:
    """The agent's model: which state it runs, which it should, and what to do next."""

    def __init__(self, slots: int) -> None:
        self.issues = Issues()
        self._slots = slots
        self._wanted: facts.Wanted | None = None
        self._serving: facts.Wanted | None = None
        self._previous: facts.Wanted | None = None  # served before the exchange that runs or failed
        self._empty: facts.Wanted | None = None  # a state without a model that is in force
        self._operation: facts.Operation | None = None
        self._proved: tuple[facts.Operation, facts.Proved] | None = None
        self._attempts = Attempts()
        self._slots_in_use = 0
        self._draining = False
        self._giving_up = False

    def __repr__(self) -> str:
        wanted = self._wanted.revision if self._wanted else None
        return f"<Swap wanted {wanted}, applied {self.applied_revision}, {self.phase or 'settled'}>"

    # Questions

    @property
    def accepting(self) -> bool:
        """Whether a model serves and may be given more work."""
        return self._serving is not None and not self._draining

    @property
    def phase(self) -> facts.Phase | None:
        """The step of the swap that runs now."""
        if self._operation is None:
            return "draining" if self._draining else None
        if self._operation.restoring:
            return "settling"
        return "proving" if self._operation.kind == "proving" else "loading"

    @property
    def applied_revision(self) -> int | None:
        """The revision of the state in force; None while there is none."""
        in_force = self._serving or self._empty
        return in_force.revision if in_force else None

    @property
    def serving(self) -> facts.Wanted | None:
        """The state whose model serves."""
        return self._serving

    @property
    def application_status(self) -> StateApplicationStatus:
        """Paddler's word for how far the wanted state got."""
        if self._wanted is None:
            return StateApplicationStatus.FRESH
        if self._wanted == (self._serving or self._empty):
            return StateApplicationStatus.APPLIED
        if self._attempts.restore_failed:
            return StateApplicationStatus.STUCK
        if self._attempts.is_given_up:
            return StateApplicationStatus.ATTEMPTED_AND_NOT_APPLIABLE
        if self._attempts.failures:
            return StateApplicationStatus.ATTEMPTED_AND_RETRYING
        return StateApplicationStatus.FRESH

    def next_deadline(self) -> float | None:
        """When `TimePassed` has to be fed; None: nothing waits for time."""
        return self._attempts.next_try if self._operation is None else None

    # Events

    def handle(self, event: facts.Event, now: float) -> list[facts.Action]:
        """Take one fact; returns what has to be done because of it."""
        actions: list[facts.Action] = []
        match event:
            case facts.StateWanted():
                actions = self._on_wanted(facts.Wanted(event.revision, event.state))
            case facts.SlotsInUse(count=count):
                self._slots_in_use = count
            case facts.Proved() | facts.ProofRefused() | facts.ProofGivenUp():
                self._on_proof(event, now)
            case facts.Loaded() | facts.LoadRefused() | facts.LoadGivenUp() | facts.Unloaded():
                self._on_exchanged(event, now)
            case facts.ModelLost():
                self._on_model_lost(event, now)
            case facts.TimePassed():
                pass
        return actions + self._decide(now)

    def _on_wanted(self, wanted: facts.Wanted) -> list[facts.Action]:
        if wanted == self._wanted:
            return []
        if self._is_wanted(wanted):
            self._attempts.allow_now()
        else:
            self._attempts = Attempts()
            self.issues.state_replaced()
        self._wanted = wanted
        if self._operation is None or self._giving_up:
            return []
        self._giving_up = is_in_vain(self._operation, wanted.state)
        return [facts.GiveUp()] if self._giving_up else []

    def _on_proof(self, event: facts.Proved | facts.ProofRefused | facts.ProofGivenUp, now: float) -> None:
        running = self._end_operation("proving")
        self._giving_up = False
        if isinstance(event, facts.ProofGivenUp):
            return
        if isinstance(event, facts.Proved):
            self._proved = (running, event)
            if not running.restoring and self._is_wanted(running.target):
                self.issues.proved()
        else:
            self._on_refusal(running, event.problem.issues, now, retry=event.problem.may_pass)

    def _on_exchanged(
        self, event: facts.Loaded | facts.LoadRefused | facts.LoadGivenUp | facts.Unloaded, now: float
    ) -> None:
        running = self._end_operation("exchanging")
        self._giving_up = False
        if isinstance(event, facts.LoadRefused):
            # Another try would take down the model that comes back now; it needs somebody's decision.
            self._on_refusal(running, event.problem.issues, now, retry=self._previous is None)
        elif isinstance(event, facts.Unloaded):
            self._previous = None
        elif isinstance(event, facts.Loaded):
            self._serving, self._previous = running.target, None
            notes = running.proof.notes if running.proof else ()
            if running.restoring:
                self.issues.restored(notes)
            else:
                self.issues.applied(notes)

    def _on_refusal(self, running: facts.Operation, issues: tuple[AgentIssue, ...], now: float, *, retry: bool) -> None:
        if not running.restoring and not self._is_wanted(running.target):
            return  # nobody waits for it any more
        self.issues.raise_problems(issues)
        self._attempts.failed(now, retry=retry or running.restoring)
        self._attempts.restore_failed = running.restoring

    def _on_model_lost(self, event: facts.ModelLost, now: float) -> None:
        if self._serving is None:
            return
        lost, self._serving = self._serving, None
        self.issues.unloaded()
        self.issues.raise_problems((event.issue,))
        self._attempts.failed(now, retry=True)
        if not self._is_wanted(lost):
            self._previous = lost
            self._attempts.restore_failed = True  # not at once: it might die at once again

    def _end_operation(self, kind: str) -> facts.Operation:
        running, self._operation = self._operation, None
        if running is None or running.kind != kind:
            raise RuntimeError(f"{self!r} was told the end of {kind}, which does not run")
        return running

    # The one place that starts anything

    def _decide(self, now: float) -> list[facts.Action]:
        if self._operation is not None:
            return []
        self._draining = False
        target, restoring = self._target(now)
        need = Need.NOTHING
        if target is not None:
            need = what_is_needed(self._serving.state if self._serving else None, target.state)
        actions = self._drop_stale_proof(target, need)
        if target is None:
            return actions
        if need is Need.NOTHING:
            self._in_force(target)
        elif need is Need.RELOAD and self._slots > MOST_SLOTS:
            self.issues.raise_problems((too_many_slots(self._slots, MOST_SLOTS),))
            self._attempts.failed(now, retry=False)
        else:
            actions += self._move_towards(target, need, restoring)
        return actions

    def _move_towards(self, target: facts.Wanted, need: Need, restoring: bool) -> list[facts.Action]:
        if need is not Need.UNLOAD and self._proved is None and not self._can_skip_proof(need, target):
            self._operation = facts.Operation("proving", target, restoring, reload=need is Need.RELOAD)
            return [facts.Prove(target.state, need is Need.RELOAD)]
        return self._use_settings(target) if need is Need.SETTINGS else self._exchange(target, restoring)

    def _target(self, now: float) -> tuple[facts.Wanted | None, bool]:
        """What to aim at, and whether that is the model that served before."""
        if self._wanted is None or self._attempts.may_try(now):
            return self._wanted, False
        if self._serving is None and self._previous is not None and not self._attempts.restore_failed:
            return self._previous, True
        return None, False

    def _can_skip_proof(self, need: Need, target: facts.Wanted) -> bool:
        serving = self._serving
        return need is Need.SETTINGS and serving is not None and differs_only_in_sampling(serving.state, target.state)

    def _in_force(self, target: facts.Wanted) -> None:
        """Nothing differs but, perhaps, the revision."""
        if self._serving is None:
            self._empty, self._previous = target, None
        else:
            self._serving = target
        self._attempts.succeeded()

    def _use_settings(self, target: facts.Wanted) -> list[facts.Action]:
        self._serving = target
        self._attempts.succeeded()
        actions: list[facts.Action] = [facts.UseSettings(target.state)]
        if self._proved is not None:
            self.issues.applied(self._proved[1].notes)
            actions.append(facts.DropProof(self._proved[1].proof))
            self._proved = None
        return actions

    def _exchange(self, target: facts.Wanted, restoring: bool) -> list[facts.Action]:
        if self._slots_in_use:
            self._draining = True
            return []
        proof = self._proved[1] if self._proved else None
        self._previous = self._serving or self._previous
        self._serving = self._empty = self._proved = None
        self.issues.unloaded()
        self._operation = facts.Operation("exchanging", target, restoring, reload=True, proof=proof)
        return [facts.Exchange(target.state, proof.proof if proof else None)]

    def _drop_stale_proof(self, target: facts.Wanted | None, need: Need) -> list[facts.Action]:
        """A proof is good for one state, and for a load only if it was made for one."""
        if self._proved is None:
            return []
        operation, proved = self._proved
        is_of_use = need is Need.SETTINGS or (need is Need.RELOAD and operation.reload)
        if is_of_use and target is not None and operation.target.state == target.state:
            return []
        self._proved = None
        return [facts.DropProof(proved.proof)]

    def _is_wanted(self, target: facts.Wanted) -> bool:
        return self._wanted is not None and self._wanted.state == target.state
