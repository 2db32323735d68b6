"""Prove, exchange, settle: every way that a state can come into force, or fail to."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from agent.core import swap_events as facts
from agent.core.swap import MOST_SLOTS, Swap
from shared.agent_status import AgentIssue, IssueKind, StateApplicationStatus
from shared.desired_state import AgentDesiredState
from tests.support.agent_states import state

A, B, C = state("/a.gguf"), state("/b.gguf"), state("/c.gguf")
NOTHING = state("None")
MISSING = AgentIssue(kind=IssueKind.MODEL_FILE_DOES_NOT_EXIST, model_path="/b.gguf", detail="no such file")
BROKEN = AgentIssue(kind=IssueKind.MODEL_CANNOT_BE_LOADED, model_path="/b.gguf", detail="broken")
NOTE = AgentIssue(kind=IssueKind.UNABLE_TO_FIND_CHAT_TEMPLATE, model_path="/a.gguf", detail="none")


@dataclass
class Driver:
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


@pytest.fixture
def driver() -> Iterator[Driver]:
    one = Driver()
    yield one
    assert len(one.open_proofs) <= 1, "a proof leaked"


def test_a_new_agent_proves_then_loads(driver: Driver) -> None:
    assert driver.swap.application_status is StateApplicationStatus.FRESH
    driver.want(7, A)
    assert driver.order() == facts.Prove(A, reload=True)
    assert driver.phase() == "proving"
    driver.prove()
    assert driver.phase() == "loading"
    assert not driver.accepting()
    driver.load()
    driver.assert_applied(7, A)
    assert driver.accepting()


def test_the_old_model_serves_until_the_new_one_is_proved_and_its_requests_have_ended(driver: Driver) -> None:
    driver.serve(1, A)
    driver.in_use(2)
    driver.want(2, B)
    assert driver.accepting()
    driver.prove()
    assert driver.phase() == "draining"
    assert not driver.accepting()
    driver.in_use(1)
    assert driver.orders == []
    driver.in_use(0)
    assert driver.order() == facts.Exchange(B, "proof 2")
    driver.load()
    driver.assert_applied(2, B)


def test_an_identical_state_under_a_new_revision_does_nothing(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, A)
    assert driver.orders == []
    driver.assert_applied(2, A)


def test_the_same_message_twice_does_nothing(driver: Driver) -> None:
    driver.want(1, A)
    driver.want(1, A)
    driver.prove()
    driver.want(1, A)
    driver.load()
    driver.want(1, A)
    driver.assert_applied(1, A)
    assert driver.proofs_made == 1


def test_sampling_parameters_change_without_proof_or_load(driver: Driver) -> None:
    driver.serve(1, A)
    driver.in_use(3)
    cooler = state("/a.gguf", temperature=0.0, top_k=1)
    driver.want(2, cooler)
    assert driver.settings == [cooler]
    assert driver.orders == []
    assert driver.accepting()
    assert driver.swap.applied_revision == 2


def test_a_template_is_compiled_but_nothing_is_loaded(driver: Driver) -> None:
    driver.serve(1, A)
    with_template = state("/a.gguf", template="{{ messages }}")
    driver.want(2, with_template)
    assert driver.order() == facts.Prove(with_template, reload=False)
    driver.prove()
    assert driver.settings == [with_template]
    assert driver.swap.applied_revision == 2
    assert not driver.open_proofs


def test_a_template_that_does_not_compile_leaves_the_old_one_in_force(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, state("/a.gguf", template="{% if"))
    issue = AgentIssue(kind=IssueKind.CHAT_TEMPLATE_DOES_NOT_COMPILE, model_path="/a.gguf")
    driver.refuse_proof(issue, may_pass=False)
    assert driver.accepting()
    assert driver.swap.applied_revision == 1
    assert driver.kinds() == [IssueKind.CHAT_TEMPLATE_DOES_NOT_COMPILE]
    assert driver.swap.application_status is StateApplicationStatus.ATTEMPTED_AND_NOT_APPLIABLE


@pytest.mark.parametrize(
    "change",
    [
        {"n_batch": 64},
        {"context_size": 128},
        {"k_cache_dtype": "F16"},
        {"v_cache_dtype": "F16"},
        {"n_gpu_layers": 1},
    ],
)
def test_what_the_context_depends_on_is_loaded_anew(driver: Driver, change: dict[str, Any]) -> None:
    driver.serve(1, A)
    driver.want(2, state("/a.gguf", **change))
    driver.prove()
    assert isinstance(driver.order(), facts.Exchange)


def test_of_several_quick_states_only_the_last_is_loaded(driver: Driver) -> None:
    driver.want(1, A)
    driver.want(2, B)
    driver.want(3, C)
    driver.prove()  # of A: nobody wants it any more
    assert driver.order() == facts.Prove(C, reload=True)
    driver.prove()
    driver.load()
    driver.assert_applied(3, C)


def test_a_proof_that_nobody_waits_for_is_given_up_once_and_the_next_begins(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.want(3, C)
    driver.want(4, C)
    assert driver.given_up == 1
    driver.give_up_proof()
    assert driver.order() == facts.Prove(C, reload=True)
    driver.prove()
    driver.load()
    driver.assert_applied(4, C)
    assert driver.kinds() == []


def test_a_proof_given_up_for_a_state_that_is_wanted_again_is_made_anew(driver: Driver) -> None:
    driver.want(1, A)
    driver.want(2, B)
    driver.want(3, A)
    driver.give_up_proof()
    assert driver.order() == facts.Prove(A, reload=True)
    driver.want(4, B)
    assert driver.given_up == 2


def test_a_proof_of_the_model_that_comes_back_is_given_up_for_a_new_state(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.prove()
    driver.refuse_load()
    assert driver.order() == facts.Prove(A, reload=True)
    driver.want(3, C)
    assert driver.given_up == 1
    driver.give_up_proof()
    assert driver.order() == facts.Prove(C, reload=True)


def test_the_same_state_of_a_later_revision_gives_no_proof_up(driver: Driver) -> None:
    driver.want(1, A)
    driver.want(2, A)
    assert driver.given_up == 0
    driver.prove()
    driver.load()
    driver.assert_applied(2, A)


def test_going_back_to_the_serving_state_while_it_drains_opens_the_agent_again(driver: Driver) -> None:
    driver.serve(1, A)
    driver.in_use(1)
    driver.want(2, B)
    driver.prove()
    assert not driver.accepting()
    driver.want(3, A)
    assert driver.accepting()
    driver.assert_applied(3, A)


def test_going_back_while_the_new_model_loads_gives_the_load_up(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.prove()
    driver.want(3, A)
    driver.want(4, C)
    assert driver.given_up == 1
    driver.give_up()
    driver.prove()
    driver.load()
    driver.assert_applied(4, C)
    assert driver.kinds() == []


def test_a_load_that_could_not_be_given_up_in_time_serves_until_the_next_is_proved(driver: Driver) -> None:
    driver.want(1, A)
    driver.prove()
    driver.want(2, B)
    driver.load()
    assert driver.accepting()
    assert driver.swap.applied_revision == 1
    driver.prove()
    driver.load()
    driver.assert_applied(2, B)


def test_a_missing_file_is_an_issue_and_the_old_model_serves_on(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.refuse_proof()
    assert driver.accepting()
    assert driver.swap.applied_revision == 1
    assert driver.swap.application_status is StateApplicationStatus.ATTEMPTED_AND_RETRYING
    assert driver.kinds() == [IssueKind.MODEL_FILE_DOES_NOT_EXIST]


def test_a_file_that_appears_later_is_picked_up(driver: Driver) -> None:
    driver.want(1, B)
    driver.refuse_proof()
    assert driver.swap.next_deadline() == 1.0
    driver.pass_time(1.0)
    driver.refuse_proof()
    assert driver.swap.next_deadline() == 3.0  # two seconds on
    assert driver.kinds() == [IssueKind.MODEL_FILE_DOES_NOT_EXIST]
    driver.pass_time(2.0)
    driver.prove()
    assert driver.kinds() == []
    driver.load()
    driver.assert_applied(1, B)


def test_waiting_between_tries_is_bounded(driver: Driver) -> None:
    driver.want(1, B)
    for _ in range(40):
        driver.refuse_proof()
        deadline = driver.swap.next_deadline()
        assert deadline is not None
        assert 1.0 <= deadline - driver.now <= 30.0
        driver.pass_time(deadline - driver.now)
    assert isinstance(driver.order(), facts.Prove)


def test_time_that_passes_too_early_tries_nothing(driver: Driver) -> None:
    driver.want(1, B)
    driver.refuse_proof()
    driver.pass_time(0.5)
    assert driver.orders == []


def test_another_state_clears_the_issue_and_does_not_wait(driver: Driver) -> None:
    driver.want(1, B)
    driver.refuse_proof()
    driver.want(2, A)
    assert driver.kinds() == []
    driver.prove()
    driver.load()
    driver.assert_applied(2, A)


def test_a_source_that_is_not_supported_is_not_tried_again(driver: Driver) -> None:
    driver.want(1, B)
    driver.refuse_proof(BROKEN, may_pass=False)
    assert driver.swap.next_deadline() is None
    assert driver.swap.application_status is StateApplicationStatus.ATTEMPTED_AND_NOT_APPLIABLE


def test_a_failed_load_brings_the_old_model_back(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.prove()
    driver.refuse_load()
    assert driver.order() == facts.Prove(A, reload=True)
    assert driver.phase() == "settling"
    driver.prove(NOTE)
    assert driver.phase() == "settling"
    driver.load()
    assert driver.loaded == A
    assert driver.accepting()
    assert driver.swap.applied_revision == 1
    assert driver.swap.application_status is StateApplicationStatus.ATTEMPTED_AND_NOT_APPLIABLE
    assert driver.kinds() == [IssueKind.MODEL_CANNOT_BE_LOADED, IssueKind.UNABLE_TO_FIND_CHAT_TEMPLATE]
    assert driver.swap.next_deadline() is None, "a retry would take down the model that serves"


def test_the_same_state_under_a_new_revision_tries_a_failed_load_again(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.prove()
    driver.refuse_load()
    driver.prove()
    driver.load()
    driver.want(3, B)
    driver.prove()
    driver.load()
    driver.assert_applied(3, B)
    assert driver.kinds() == []


def test_when_the_old_model_does_not_come_back_either_it_is_stuck_and_retries(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.prove()
    driver.refuse_load()
    driver.prove()
    driver.refuse_load(AgentIssue(kind=IssueKind.MODEL_CANNOT_BE_LOADED, model_path="/a.gguf"))
    assert not driver.accepting()
    assert driver.swap.application_status is StateApplicationStatus.STUCK
    deadline = driver.swap.next_deadline()
    assert deadline is not None
    driver.pass_time(deadline - driver.now)
    assert driver.order() == facts.Prove(B, reload=True)
    driver.refuse_proof(may_pass=False)
    assert driver.order() == facts.Prove(A, reload=True), "the old model gets a new chance too"


def test_a_fresh_agent_whose_model_does_not_load_retries(driver: Driver) -> None:
    driver.want(1, B)
    driver.prove()
    driver.refuse_load()
    assert driver.swap.application_status is StateApplicationStatus.ATTEMPTED_AND_RETRYING
    assert driver.swap.next_deadline() == 1.0


def test_no_model_means_unload_after_the_requests_have_ended(driver: Driver) -> None:
    driver.serve(1, A)
    driver.in_use(1)
    driver.want(2, NOTHING)
    assert not driver.accepting()
    driver.in_use(0)
    assert driver.order() == facts.Exchange(NOTHING, None)
    driver.load()
    driver.assert_applied(2, NOTHING)
    assert not driver.accepting()


def test_no_model_on_an_agent_that_has_none_is_applied_at_once(driver: Driver) -> None:
    driver.want(1, NOTHING)
    driver.assert_applied(1, NOTHING)


def test_a_state_without_a_model_forgets_the_one_before(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.prove()
    driver.want(3, NOTHING)
    driver.give_up()
    driver.assert_applied(3, NOTHING)
    driver.want(4, B)
    driver.refuse_proof(may_pass=False)
    assert driver.orders == [], "a model that was told to go came back"


def test_notes_live_as_long_as_their_model(driver: Driver) -> None:
    driver.want(1, A)
    driver.prove(NOTE)
    driver.load()
    assert driver.kinds() == [NOTE.kind]
    driver.want(2, B)
    assert driver.kinds() == [NOTE.kind]
    driver.prove()
    assert driver.kinds() == []


def test_more_slots_than_a_context_has_is_one_issue_and_no_load() -> None:
    driver = Driver(Swap(MOST_SLOTS + 1))
    driver.want(1, A)
    assert driver.orders == []
    (issue,) = driver.swap.issues.current()
    assert issue.kind is IssueKind.SLOT_CANNOT_START
    assert "--slots 256" in issue.detail
    assert "255" in issue.detail
    assert not driver.accepting()


def test_as_many_slots_as_a_context_has_load() -> None:
    driver = Driver(Swap(MOST_SLOTS))
    driver.serve(1, A)


def test_a_model_whose_engine_died_is_loaded_again_after_a_while(driver: Driver) -> None:
    driver.serve(1, A)
    driver.loaded = None
    driver.feed(facts.ModelLost(BROKEN))
    assert not driver.accepting()
    assert driver.kinds() == [IssueKind.MODEL_CANNOT_BE_LOADED]
    assert driver.orders == []
    driver.pass_time(1.0)
    driver.prove()
    driver.load()
    driver.assert_applied(1, A)
    assert driver.kinds() == []


def test_a_proof_without_weights_is_not_used_for_a_load(driver: Driver) -> None:
    driver.serve(1, A)
    driver.want(2, state("/a.gguf", template="x"))
    driver.loaded = None
    driver.feed(facts.ModelLost(BROKEN))  # while the template is compiled
    driver.prove()
    driver.pass_time(1.0)
    assert driver.order() == facts.Prove(state("/a.gguf", template="x"), reload=True)


def test_the_end_of_what_does_not_run_is_a_bug(driver: Driver) -> None:
    with pytest.raises(RuntimeError):
        driver.feed(facts.Loaded())


STATES = [A, B, C, NOTHING, state("/a.gguf", temperature=0.0), state("/a.gguf", template="x")]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=60))
def test_whatever_happens_the_last_state_is_applied_once_everything_works(
    steps: list[tuple[int, int]],
) -> None:
    driver = Driver()
    revision = 0
    for what, which in steps:
        driver.now += 0.25
        order = driver.orders[0] if driver.orders else None
        if what <= 2:
            revision += 1
            driver.want(revision, STATES[which])
        elif what == 3 and (driver.accepting() or driver.slots_in_use):
            driver.in_use(which if driver.accepting() else max(0, driver.slots_in_use - 1))
        elif what == 4:
            driver.pass_time(1.0)
        elif what == 5 and driver.loaded is not None:
            driver.loaded = None
            driver.in_use(0)
            driver.feed(facts.ModelLost(BROKEN))
        elif isinstance(order, facts.Prove):
            if what < 8:
                driver.prove()
            elif what == 8 and driver.given_up:
                driver.give_up_proof()
            else:
                driver.refuse_proof(may_pass=which > 2)
        elif isinstance(order, facts.Exchange):
            if order.proof is None or what < 8:
                driver.load()
            else:
                driver.refuse_load()
        assert driver.accepting() <= (driver.loaded is not None)
        assert len(driver.open_proofs) <= 1
    driver.want(revision + 1, B)
    driver.in_use(0)
    for _ in range(10):
        if driver.orders:
            driver.prove() if isinstance(driver.orders[0], facts.Prove) else driver.load()
        else:
            driver.pass_time(30.0)
    driver.assert_applied(revision + 1, B)
    assert driver.kinds() == []
