"""A client that leaves, or does not read, has its own outcome; what it got is counted."""

import asyncio

import pytest
from aiohttp import web

from balancer.request_record import Outcome
from shared.failures import FailureKind
from tests.support.account_driver import AccountDriver


def test_a_client_that_leaves_cancels_and_what_it_got_is_counted() -> None:
    driver = AccountDriver()

    def leave() -> None:
        with driver.open() as account:
            account.admitted(driver.group)
            driver.accept(account)
            driver.give(account, 3)
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        leave()
    record = driver.record
    assert (record.outcome, record.status, record.failure) == (Outcome.CANCELLED, None, None)
    assert (record.prompt_tokens, record.content_tokens) == (5, 3)


def test_a_client_that_is_found_gone_cancels() -> None:
    driver = AccountDriver()
    with driver.open() as account:
        account.admitted(driver.group)
        account.client_left()
        account.answered(web.StreamResponse())
    assert (driver.record.outcome, driver.record.status) == (Outcome.CANCELLED, None)


def test_a_client_that_does_not_read_has_a_word_of_its_own() -> None:
    for notices_itself in (True, False):
        driver = AccountDriver()
        try:
            with driver.open() as account:
                account.admitted(driver.group)
                driver.accept(account)
                if notices_itself:
                    account.failed(FailureKind.SLOW_CONSUMER)
                    account.answered(web.StreamResponse())
                else:  # the switchboard drops the connection under a handler that is stuck in a write
                    driver.group.abort()
                    raise asyncio.CancelledError
        except asyncio.CancelledError:
            assert not notices_itself
        record = driver.record
        assert (record.outcome, record.failure) == (Outcome.FAILED, FailureKind.SLOW_CONSUMER)
        assert record.status is None
