"""Prove, exchange, settle: what a new state costs, from nothing at all to a load."""

from typing import Any

import pytest

from agent.core import swap_events as facts
from agent.core.swap import MOST_SLOTS, Swap
from shared.agent_status import AgentIssue, IssueKind, StateApplicationStatus
from shared.desired_state import LocalToAgentSource
from tests.support.agent_states import state
from tests.support.swap_driver import NOTE, NOTHING, A, B, SwapDriver


def test_a_new_agent_proves_then_loads(driver: SwapDriver) -> None:
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


def test_the_old_model_serves_until_the_new_one_is_proved_and_its_requests_have_ended(driver: SwapDriver) -> None:
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


def test_an_identical_state_under_a_new_revision_does_nothing(driver: SwapDriver) -> None:
    driver.serve(1, A)
    driver.want(2, A)
    assert driver.orders == []
    driver.assert_applied(2, A)


def test_the_same_message_twice_does_nothing(driver: SwapDriver) -> None:
    driver.want(1, A)
    driver.want(1, A)
    driver.prove()
    driver.want(1, A)
    driver.load()
    driver.want(1, A)
    driver.assert_applied(1, A)
    assert driver.proofs_made == 1


def test_sampling_parameters_change_without_proof_or_load(driver: SwapDriver) -> None:
    driver.serve(1, A)
    driver.in_use(3)
    cooler = state("/a.gguf", temperature=0.0, top_k=1)
    driver.want(2, cooler)
    assert driver.settings == [cooler]
    assert driver.orders == []
    assert driver.accepting()
    assert driver.swap.applied_revision == 2


def test_a_template_is_compiled_but_nothing_is_loaded(driver: SwapDriver) -> None:
    driver.serve(1, A)
    with_template = state("/a.gguf", template="{{ messages }}")
    driver.want(2, with_template)
    assert driver.order() == facts.Prove(with_template, reload=False)
    driver.prove()
    assert driver.settings == [with_template]
    assert driver.swap.applied_revision == 2
    assert not driver.open_proofs


def test_a_template_that_does_not_compile_leaves_the_old_one_in_force(driver: SwapDriver) -> None:
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
def test_what_the_context_depends_on_is_loaded_anew(driver: SwapDriver, change: dict[str, Any]) -> None:
    driver.serve(1, A)
    driver.want(2, state("/a.gguf", **change))
    driver.prove()
    assert isinstance(driver.order(), facts.Exchange)


def test_other_adapters_are_loaded_anew_and_none_are_as_unset(driver: SwapDriver) -> None:
    driver.serve(1, A)
    driver.want(2, A.model_copy(update={"lora_adapters": {}}))
    while driver.orders:
        driver.prove()
    driver.want(3, A.model_copy(update={"lora_adapters": {"poet": LocalToAgentSource(LocalToAgent="/a/poet.gguf")}}))
    assert isinstance(driver.order(), facts.Prove)
    driver.prove()
    assert isinstance(driver.order(), facts.Exchange)


def test_no_model_means_unload_after_the_requests_have_ended(driver: SwapDriver) -> None:
    driver.serve(1, A)
    driver.in_use(1)
    driver.want(2, NOTHING)
    assert not driver.accepting()
    driver.in_use(0)
    assert driver.order() == facts.Exchange(NOTHING, None)
    driver.load()
    driver.assert_applied(2, NOTHING)
    assert not driver.accepting()


def test_no_model_on_an_agent_that_has_none_is_applied_at_once(driver: SwapDriver) -> None:
    driver.want(1, NOTHING)
    driver.assert_applied(1, NOTHING)


def test_notes_live_as_long_as_their_model(driver: SwapDriver) -> None:
    driver.want(1, A)
    driver.prove(NOTE)
    driver.load()
    assert driver.kinds() == [NOTE.kind]
    driver.want(2, B)
    assert driver.kinds() == [NOTE.kind]
    driver.prove()
    assert driver.kinds() == []


def test_more_slots_than_a_context_has_is_one_issue_and_no_load() -> None:
    driver = SwapDriver(Swap(MOST_SLOTS + 1))
    driver.want(1, A)
    assert driver.orders == []
    (issue,) = driver.swap.issues.current()
    assert issue.kind is IssueKind.SLOT_CANNOT_START
    assert "--slots 256" in issue.detail
    assert "255" in issue.detail
    assert not driver.accepting()


def test_as_many_slots_as_a_context_has_load() -> None:
    driver = SwapDriver(Swap(MOST_SLOTS))
    driver.serve(1, A)


def test_the_end_of_what_does_not_run_is_a_bug(driver: SwapDriver) -> None:
    with pytest.raises(RuntimeError):
        driver.feed(facts.Loaded())
