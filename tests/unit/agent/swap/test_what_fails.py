"""Proofs and loads that fail, and engines that die: issues, waits between tries, and what serves meanwhile."""

from agent.core import swap_events as facts
from shared.agent_status import AgentIssue, IssueKind, StateApplicationStatus
from tests.support.agent_states import state
from tests.support.swap_driver import BROKEN, NOTE, A, B, SwapDriver


def test_a_missing_file_is_an_issue_and_the_old_model_serves_on(driver: SwapDriver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.refuse_proof()
    assert driver.accepting()
    assert driver.swap.applied_revision == 1
    assert driver.swap.application_status is StateApplicationStatus.ATTEMPTED_AND_RETRYING
    assert driver.kinds() == [IssueKind.MODEL_FILE_DOES_NOT_EXIST]


def test_a_file_that_appears_later_is_picked_up(driver: SwapDriver) -> None:
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


def test_waiting_between_tries_is_bounded(driver: SwapDriver) -> None:
    driver.want(1, B)
    for _ in range(40):
        driver.refuse_proof()
        deadline = driver.swap.next_deadline()
        assert deadline is not None
        assert 1.0 <= deadline - driver.now <= 30.0
        driver.pass_time(deadline - driver.now)
    assert isinstance(driver.order(), facts.Prove)


def test_time_that_passes_too_early_tries_nothing(driver: SwapDriver) -> None:
    driver.want(1, B)
    driver.refuse_proof()
    driver.pass_time(0.5)
    assert driver.orders == []


def test_another_state_clears_the_issue_and_does_not_wait(driver: SwapDriver) -> None:
    driver.want(1, B)
    driver.refuse_proof()
    driver.want(2, A)
    assert driver.kinds() == []
    driver.prove()
    driver.load()
    driver.assert_applied(2, A)


def test_a_source_that_is_not_supported_is_not_tried_again(driver: SwapDriver) -> None:
    driver.want(1, B)
    driver.refuse_proof(BROKEN, may_pass=False)
    assert driver.swap.next_deadline() is None
    assert driver.swap.application_status is StateApplicationStatus.ATTEMPTED_AND_NOT_APPLIABLE


def test_a_failed_load_brings_the_old_model_back(driver: SwapDriver) -> None:
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


def test_the_same_state_under_a_new_revision_tries_a_failed_load_again(driver: SwapDriver) -> None:
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


def test_when_the_old_model_does_not_come_back_either_it_is_stuck_and_retries(driver: SwapDriver) -> None:
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


def test_a_fresh_agent_whose_model_does_not_load_retries(driver: SwapDriver) -> None:
    driver.want(1, B)
    driver.prove()
    driver.refuse_load()
    assert driver.swap.application_status is StateApplicationStatus.ATTEMPTED_AND_RETRYING
    assert driver.swap.next_deadline() == 1.0


def test_a_model_whose_engine_died_is_loaded_again_after_a_while(driver: SwapDriver) -> None:
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


def test_a_proof_without_weights_is_not_used_for_a_load(driver: SwapDriver) -> None:
    driver.serve(1, A)
    driver.want(2, state("/a.gguf", template="x"))
    driver.loaded = None
    driver.feed(facts.ModelLost(BROKEN))  # while the template is compiled
    driver.prove()
    driver.pass_time(1.0)
    assert driver.order() == facts.Prove(state("/a.gguf", template="x"), reload=True)
