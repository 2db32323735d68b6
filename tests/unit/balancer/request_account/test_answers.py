"""Answers, refusals and failures: each account says how its request ended, and counts as the agent counted."""

import pytest
from aiohttp import web

from balancer.request_record import Outcome
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason, Usage
from tests.support.account_driver import AccountDriver, ok


def test_an_answer_is_counted_as_the_agent_counts() -> None:
    driver = AccountDriver()
    with driver.open() as account:
        driver.now = 101.0
        account.admitted(driver.group)
        driver.now = 101.5
        driver.accept(account)
        driver.now = 102.0
        driver.give(account, 2)
        driver.now = 102.25
        driver.give(account, 3)
        driver.now = 103.0
        driver.end(account, usage=Usage(prompt_tokens=6, cached_prompt_tokens=2, content_tokens=4, reasoning_tokens=1))
        account.answered(ok())
    record = driver.record
    assert (record.outcome, record.failure, record.status) == (Outcome.ANSWERED, None, 200)
    assert (record.prompt_tokens, record.cached_prompt_tokens) == (6, 2)
    assert (record.content_tokens, record.reasoning_tokens, record.generated_tokens) == (4, 1, 5)
    assert record.agent_names == ["gpu-1"]
    assert record.finish_reasons == [FinishReason.STOP]
    assert record.queue_wait_seconds == 0.5
    assert record.accepted_at == 101.5
    assert record.time_to_first_token_seconds == 2.0
    assert record.time_per_output_token_seconds == 0.25 / 4
    assert record.duration_seconds == 3.0
    assert driver.notes.gaps == [(0.25, 3)]


def test_a_whole_answer_at_once_needs_no_agent() -> None:
    driver = AccountDriver()
    with driver.open() as account:
        account.answered(ok())
    assert (driver.record.outcome, driver.record.choices, driver.record.queue_wait_seconds) == (
        Outcome.ANSWERED,
        0,
        None,
    )


def test_a_body_that_is_wrong_is_refused() -> None:
    driver = AccountDriver()
    with driver.open() as account:
        account.answered(web.Response(status=413))
    record = driver.record
    assert (record.outcome, record.failure, record.status) == (Outcome.REFUSED, FailureKind.INVALID_REQUEST, 413)


def test_a_full_room_refuses_and_is_no_wait() -> None:
    driver = AccountDriver()
    with driver.open() as account:
        account.admitted(driver.group)
        driver.end(account, failure=Failure(FailureKind.BUFFER_FULL, ""))
        account.answered(web.Response(status=503))
    record = driver.record
    assert (record.outcome, record.failure, record.status) == (Outcome.REFUSED, FailureKind.BUFFER_FULL, 503)
    assert record.queue_wait_seconds == 0.0


def test_a_wait_in_vain_is_a_wait() -> None:
    driver = AccountDriver()
    with driver.open() as account:
        account.admitted(driver.group)
        driver.now += 10.0
        driver.end(account, failure=Failure(FailureKind.WAITED_TOO_LONG, ""))
        account.answered(web.Response(status=504))
    assert (driver.record.outcome, driver.record.queue_wait_seconds) == (Outcome.REFUSED, 10.0)


def test_what_an_agent_refuses_is_refused_and_what_it_accepted_fails() -> None:
    for accepts, outcome in ((False, Outcome.REFUSED), (True, Outcome.FAILED)):
        driver = AccountDriver()
        with driver.open() as account:
            account.admitted(driver.group)
            driver.run()
            if accepts:
                driver.accept(account)
            driver.end(account, failure=Failure(FailureKind.GRAMMAR_SYNTAX, ""))
            account.answered(ok())
        assert (driver.record.outcome, driver.record.failure) == (outcome, FailureKind.GRAMMAR_SYNTAX)


def test_an_agent_that_is_lost_before_it_accepts_is_no_refusal() -> None:
    driver = AccountDriver()
    with driver.open() as account:
        account.admitted(driver.group)
        driver.run()
        driver.end(account, failure=Failure(FailureKind.AGENT_LOST, ""))
        account.answered(web.Response(status=502))
    assert driver.record.outcome is Outcome.FAILED


@pytest.mark.parametrize("reason", [None, FinishReason.CANCELLED])
def test_an_end_that_no_client_may_see_is_a_failure(reason: FinishReason | None) -> None:
    driver = AccountDriver()
    with driver.open() as account:
        account.admitted(driver.group)
        driver.accept(account)
        driver.end(account, reason)
        account.answered(web.Response(status=502))
    record = driver.record
    assert (record.outcome, record.failure, record.finish_reasons) == (Outcome.FAILED, FailureKind.INTERNAL, [])


def test_a_bug_is_a_failure_and_passes_through() -> None:
    driver = AccountDriver()
    with pytest.raises(ZeroDivisionError), driver.open():
        raise ZeroDivisionError
    record = driver.record
    assert (record.outcome, record.failure, record.status) == (Outcome.FAILED, FailureKind.INTERNAL, 500)


def test_the_first_reason_counts() -> None:
    driver = AccountDriver()
    with driver.open() as account:
        account.failed(FailureKind.MODEL_NOT_FOUND)
        account.answered(web.Response(status=404))
    assert driver.record.failure is FailureKind.MODEL_NOT_FOUND


def test_a_prompt_counts_once_and_every_answer_counts() -> None:
    driver = AccountDriver(choices=4)
    with driver.open() as account:
        account.admitted(driver.group, choices_per_prompt=2)
        for index in range(4):
            driver.accept(account, index)
            driver.end(account, usage=Usage(10 + index, index, 100), index=index)
        account.answered(ok())
    record = driver.record
    assert (record.choices, record.prompt_tokens, record.cached_prompt_tokens) == (4, 10 + 12, 0 + 2)
    assert record.content_tokens == 400
    assert record.finish_reasons == [FinishReason.STOP] * 4
    assert record.time_per_output_token_seconds is None


def test_gaps_are_between_reads_of_one_choice() -> None:
    driver = AccountDriver(choices=2)
    with driver.open() as account:
        account.admitted(driver.group)
        for index, now in ((0, 1.0), (1, 2.0), (0, 4.0), (1, 8.0)):
            driver.now = 100.0 + now
            driver.give(account, 1, index)
    assert driver.notes.gaps == [(3.0, 1), (6.0, 1)]
    assert (driver.record.first_token_at, driver.record.last_token_at) == (101.0, 108.0)
