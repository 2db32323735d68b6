"""The four ways in which a decode does not succeed: nobody is lost, nothing spins, nothing is sampled."""

import pytest

from agent.core.backend import DecodeOutcome
from shared.failures import FailureKind
from shared.generation import FinishReason
from tests.support.engine_driver import EngineDriver
from tests.support.scripted_backend import (
    ScriptedFailure,
    prompt_with_answer,
    scripted_backend,
)


def driver_for(
    cells: int = 300, batch: int = 16, slots: int = 3, chunk: int = 8, request_limit: int | None = None
) -> EngineDriver:
    return EngineDriver(scripted_backend(cells, batch, slots, request_limit), slots, chunk)


# Decodes that do not succeed


def fail_next(driver: EngineDriver, outcome: DecodeOutcome, finished_rows: int = 0, times: int = 1) -> None:
    driver.backend.failures.extend([ScriptedFailure(outcome, finished_rows)] * times)


@pytest.mark.parametrize("outcome", [DecodeOutcome.ABORTED, DecodeOutcome.FATAL])
@pytest.mark.parametrize("finished_rows", range(6))
def test_after_half_a_decode_everything_goes_on_from_where_the_memory_is(
    outcome: DecodeOutcome, finished_rows: int
) -> None:
    driver = driver_for(batch=16, chunk=3)
    for key in range(2):
        driver.submit(key, prompt_with_answer(2, 9, salt=key), 9)
    driver.step()
    driver.step()
    driver.submit("prompt", prompt_with_answer(9, 4, salt=7), 4)
    fail_next(driver, outcome, finished_rows)  # of 2 generating rows and 3 of the prompt
    driver.run()
    for member in driver.submitted:
        driver.assert_exact(member)
        assert driver.end(member).failure is None


def test_a_fatal_decode_is_tried_once_more_and_then_its_members_fail() -> None:
    driver = driver_for(slots=2)
    for key in range(2):
        driver.submit(key, prompt_with_answer(4, 9, salt=key), 9)
    driver.step()
    driver.submit("waits", prompt_with_answer(4, 5, salt=9), 5)
    fail_next(driver, DecodeOutcome.FATAL, times=2)
    driver.run()
    for key in range(2):
        failure = driver.end(key).failure
        assert failure is not None
        assert failure.kind is FailureKind.ENGINE_FAILED
    driver.assert_exact("waits")
    assert driver.end("waits").failure is None
    assert driver.scheduler.statistics().used_cells == 4 + 4  # nothing of those that failed


def test_fatal_for_ever_ends_everybody_instead_of_spinning() -> None:
    driver = driver_for(slots=2)
    for key in range(6):
        driver.submit(key, prompt_with_answer(4, 9, salt=key), 9)
    fail_next(driver, DecodeOutcome.FATAL, times=1000)
    assert driver.run() <= 12


def test_an_invalid_batch_fails_its_members_and_nobody_else() -> None:
    driver = driver_for(slots=1)
    driver.submit("a", [1, 2], 9)
    driver.submit("b", prompt_with_answer(4, 5), 5)
    fail_next(driver, DecodeOutcome.INVALID_BATCH)
    driver.run()
    failure = driver.end("a").failure
    assert failure is not None
    assert failure.kind is FailureKind.ENGINE_FAILED
    driver.assert_exact("b")
    assert driver.end("b").failure is None


def test_no_slot_against_our_count_evicts_then_sets_aside_then_splits() -> None:
    driver = driver_for(slots=2, chunk=8)
    driver.submit("idle", prompt_with_answer(4, 1), 1)
    driver.run()
    for key in range(2):
        driver.submit(key, prompt_with_answer(16, 3, salt=key + 1), 3)
    driver.step()
    fail_next(driver, DecodeOutcome.NO_KV_SLOT, times=4)
    told = []
    for _ in range(5):
        driver.step()
        figures = driver.scheduler.statistics()
        told.append((driver.backend.plans[-1].tokens, figures.evicted_tokens, figures.set_aside_total))
    assert told == [(8, 4, 0), (8, 4, 1), (8, 4, 1), (4, 4, 1), (2, 4, 1)]
    driver.run()
    for key in range(2):
        driver.assert_exact(key)
        assert driver.end(key).finish_reason is FinishReason.LENGTH


def test_no_slot_for_one_row_though_there_is_a_cell_is_a_failure_not_a_length() -> None:
    driver = driver_for(slots=1)
    driver.submit("a", prompt_with_answer(4, 9), 9)
    driver.step()
    fail_next(driver, DecodeOutcome.NO_KV_SLOT)
    driver.run()
    failure = driver.end("a").failure
    assert failure is not None
    assert failure.kind is FailureKind.ENGINE_FAILED


def test_no_slot_for_ever_ends_everybody_instead_of_spinning() -> None:
    driver = driver_for(slots=3)
    for key in range(3):
        driver.submit(key, prompt_with_answer(4, 9, salt=key), 9)
    driver.step()
    fail_next(driver, DecodeOutcome.NO_KV_SLOT, times=1000)
    assert driver.run() < 40


def test_a_memory_that_cannot_be_cut_is_evaluated_again_after_an_abort() -> None:
    driver = EngineDriver(scripted_backend(100, 16, 2, can_share=False), 2, 8)
    driver.submit("a", prompt_with_answer(5, 9), 9)
    driver.step()
    fail_next(driver, DecodeOutcome.ABORTED, 1)
    driver.run()
    driver.assert_exact("a")
    assert driver.backend.cells == []
