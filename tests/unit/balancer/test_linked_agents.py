import pytest

from balancer.core.events import AgentFacts
from balancer.linked_agents import facts_of
from shared.agent_status import StateApplicationStatus
from tests.support.switchboard_driver import status


def test_the_machine_is_told_what_decisions_depend_on() -> None:
    facts = facts_of(status(3, slots_processing=2, accepting=False, draining=True, applied_revision=7), 30.0)
    assert facts == AgentFacts(slots_total=3, slots_processing=2, accepting=False, draining=True, applied_revision=7)


@pytest.mark.parametrize("word", list(StateApplicationStatus))
def test_which_words_mean_that_the_state_could_not_be_applied(word: StateApplicationStatus) -> None:
    good = {StateApplicationStatus.APPLIED, StateApplicationStatus.FRESH}
    assert facts_of(status(state_application_status=word), 30.0).has_failed_to_apply == (word not in good)


def test_any_phase_of_a_swap_is_an_exchange_under_way() -> None:
    assert facts_of(status(swap_phase="proving"), 30.0).is_exchanging


@pytest.mark.parametrize(
    ("age", "patience", "hangs"), [(None, 30.0, False), (29.0, 30.0, False), (30.0, 30.0, True), (99.0, 0.0, False)]
)
def test_an_engine_hangs_when_a_client_would_have_given_up(age: float | None, patience: float, hangs: bool) -> None:
    assert facts_of(status(last_step_age_seconds=age), patience).engine_hangs == hangs
