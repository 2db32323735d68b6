"""States that come while another one is on its way: the newest wins."""

from agent.core import swap_events as facts
from tests.support.swap_driver import NOTHING, A, B, C, SwapDriver


def test_of_several_quick_states_only_the_last_is_loaded(driver: SwapDriver) -> None:
    driver.want(1, A)
    driver.want(2, B)
    driver.want(3, C)
    driver.prove()  # of A: nobody wants it any more
    assert driver.order() == facts.Prove(C, reload=True)
    driver.prove()
    driver.load()
    driver.assert_applied(3, C)


def test_a_proof_that_nobody_waits_for_is_given_up_once_and_the_next_begins(driver: SwapDriver) -> None:
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


def test_a_proof_given_up_for_a_state_that_is_wanted_again_is_made_anew(driver: SwapDriver) -> None:
    driver.want(1, A)
    driver.want(2, B)
    driver.want(3, A)
    driver.give_up_proof()
    assert driver.order() == facts.Prove(A, reload=True)
    driver.want(4, B)
    assert driver.given_up == 2


def test_a_proof_of_the_model_that_comes_back_is_given_up_for_a_new_state(driver: SwapDriver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.prove()
    driver.refuse_load()
    assert driver.order() == facts.Prove(A, reload=True)
    driver.want(3, C)
    assert driver.given_up == 1
    driver.give_up_proof()
    assert driver.order() == facts.Prove(C, reload=True)


def test_the_same_state_of_a_later_revision_gives_no_proof_up(driver: SwapDriver) -> None:
    driver.want(1, A)
    driver.want(2, A)
    assert driver.given_up == 0
    driver.prove()
    driver.load()
    driver.assert_applied(2, A)


def test_going_back_to_the_serving_state_while_it_drains_opens_the_agent_again(driver: SwapDriver) -> None:
    driver.serve(1, A)
    driver.in_use(1)
    driver.want(2, B)
    driver.prove()
    assert not driver.accepting()
    driver.want(3, A)
    assert driver.accepting()
    driver.assert_applied(3, A)


def test_going_back_while_the_new_model_loads_gives_the_load_up(driver: SwapDriver) -> None:
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


def test_a_load_that_could_not_be_given_up_in_time_serves_until_the_next_is_proved(driver: SwapDriver) -> None:
    driver.want(1, A)
    driver.prove()
    driver.want(2, B)
    driver.load()
    assert driver.accepting()
    assert driver.swap.applied_revision == 1
    driver.prove()
    driver.load()
    driver.assert_applied(2, B)


def test_a_state_without_a_model_forgets_the_one_before(driver: SwapDriver) -> None:
    driver.serve(1, A)
    driver.want(2, B)
    driver.prove()
    driver.want(3, NOTHING)
    driver.give_up()
    driver.assert_applied(3, NOTHING)
    driver.want(4, B)
    driver.refuse_proof(may_pass=False)
    assert driver.orders == [], "a model that was told to go came back"
