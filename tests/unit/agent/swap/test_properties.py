"""Whatever happens, in whatever order."""

import hypothesis.strategies as st
from hypothesis import given

from agent.core import swap_events as facts
from tests.support.agent_states import state
from tests.support.swap_driver import BROKEN, NOTHING, A, B, C, SwapDriver

STATES = [A, B, C, NOTHING, state("/a.gguf", temperature=0.0), state("/a.gguf", template="x")]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=60))
def test_whatever_happens_the_last_state_is_applied_once_everything_works(
    steps: list[tuple[int, int]],
) -> None:
    driver = SwapDriver()
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
