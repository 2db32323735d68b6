"""A swap played step by step: what it orders is proved, loaded or refused when the test says so."""

from dataclasses import dataclass, field

from agent.core import swap_events as facts
from agent.core.swap import Swap
from shared.agent_status import AgentIssue, IssueKind, StateApplicationStatus
from shared.desired_state import AgentDesiredState
from tests.support.agent_states import state

A, B, C = state("/a.gguf"), state("/b.gguf"), state("/c.gguf")
NOTHING = state("None")
MISSING = AgentIssue(kind=IssueKind.MODEL_FILE_DOES_NOT_EXIST, model_path="/b.gguf", detail="no such file")
BROKEN = AgentIssue(kind=IssueKind.MODEL_CANNOT_BE_LOADED, model_path="/b.gguf", detail="broken")
NOTE = AgentIssue(kind=IssueKind.UNABLE_TO_FIND_CHAT_TEMPLATE, model_path="/a.gguf", detail="none")


@dataclass
class SwapDriver:
    """Feeds a swap, answers nothing by itself, and keeps count of what is proved and loaded."""

    swap: Swap = field(default_factory=lambda: Swap(4))
    now: float = 0.0
    orders: list[facts.Action] = field(default_factory=list)
    loaded: AgentDesiredState | None = None
    open_proofs: set[object] = field(default_factory=set)
    settings: list[AgentDesiredState] = field(default_factory=list)
    given_up: int = 0
    proofs_made: int = 0

    def feed(self, event: facts.Event) -> None:
        for action in self.swap.handle(event, self.now):
            match action:
                case facts.UseSettings(state=used):
                    assert self.loaded is not None, "settings for no model"
                    self.settings.append(used)
                case facts.DropProof(proof=proof):
                    self.open_proofs.remove(proof)
                case facts.GiveUp():
                    self.given_up += 1
                case facts.Exchange():
                    assert self.slots_in_use == 0, "a model was exchanged under a running request"
                    self.loaded = None
                    self.orders.append(action)
                case facts.Prove():
                    self.orders.append(action)
        assert len(self.orders) <= 1, "two operations at once"

    slots_in_use: int = 0

    def want(self, revision: int, wanted: AgentDesiredState) -> None:
        self.feed(facts.StateWanted(revision, wanted))

    def in_use(self, count: int) -> None:
        self.slots_in_use = count
        self.feed(facts.SlotsInUse(count))

    def order(self) -> facts.Prove | facts.Exchange:
        (order,) = self.orders
        assert isinstance(order, facts.Prove | facts.Exchange)
        return order

    def prove(self, *notes: AgentIssue) -> None:
        assert isinstance(self.order(), facts.Prove)
        self.orders.clear()
        self.proofs_made += 1
        proof = f"proof {self.proofs_made}"
        self.open_proofs.add(proof)
        self.feed(facts.Proved(proof, notes))

    def refuse_proof(self, issue: AgentIssue = MISSING, *, may_pass: bool = True) -> None:
        assert isinstance(self.order(), facts.Prove)
        self.orders.clear()
        self.feed(facts.ProofRefused(facts.Problem((issue,), may_pass)))

    def give_up_proof(self) -> None:
        assert isinstance(self.order(), facts.Prove)
        self.orders.clear()
        self.feed(facts.ProofGivenUp())

    def load(self) -> None:
        order = self.order()
        assert isinstance(order, facts.Exchange)
        self.orders.clear()
        if order.proof is None:
            assert order.state.model == "None"
            self.feed(facts.Unloaded())
            return
        self.open_proofs.remove(order.proof)
        self.loaded = order.state
        self.feed(facts.Loaded())

    def refuse_load(self, issue: AgentIssue = BROKEN) -> None:
        order = self.order()
        assert isinstance(order, facts.Exchange)
        self.orders.clear()
        self.open_proofs.remove(order.proof)
        self.feed(facts.LoadRefused(facts.Problem((issue,), may_pass=True)))

    def give_up(self) -> None:
        order = self.order()
        assert isinstance(order, facts.Exchange)
        self.orders.clear()
        self.open_proofs.remove(order.proof)
        self.feed(facts.LoadGivenUp())

    def serve(self, revision: int, wanted: AgentDesiredState) -> None:
        self.want(revision, wanted)
        self.prove()
        self.load()
        assert self.swap.accepting

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.feed(facts.TimePassed())

    def assert_applied(self, revision: int, wanted: AgentDesiredState) -> None:
        assert self.loaded == wanted or (wanted.model == "None" and self.loaded is None)
        assert self.swap.application_status is StateApplicationStatus.APPLIED
        assert self.swap.applied_revision == revision
        assert self.swap.phase is None
        assert not self.open_proofs

    def phase(self) -> str | None:
        return self.swap.phase

    def accepting(self) -> bool:
        return self.swap.accepting

    def kinds(self) -> list[IssueKind]:
        return [issue.kind for issue in self.swap.issues.current()]
