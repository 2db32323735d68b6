"""Observers are told of each read of a stream and of the end; one that is wrong costs the others nothing."""

import logging

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from balancer.request_account import RequestBooks
from balancer.request_record import Endpoint, QuietObserver, RequestRecord
from tests.support.account_driver import AccountDriver, Notes, ok


def test_a_stream_costs_one_call_for_each_read() -> None:
    driver = AccountDriver()
    with driver.open() as account:
        account.admitted(driver.group)
        for tokens in (1, 1, 7):
            driver.give(account, tokens)
    assert [tokens for _, tokens in driver.notes.gaps] == [1, 7]


def test_what_does_not_listen_to_tokens_is_not_told() -> None:
    class OnlyEnds(QuietObserver):
        pass

    account = RequestBooks((OnlyEnds(),)).open(Endpoint.COMPLETE, "r", _request())
    assert account._hears_tokens == []


def test_an_observer_that_is_wrong_costs_nobody_else_anything(caplog: pytest.LogCaptureFixture) -> None:
    class Wrong(QuietObserver):
        def ended(self, record: RequestRecord) -> None:
            raise ZeroDivisionError

    notes = Notes()
    with caplog.at_level(logging.ERROR), RequestBooks((Wrong(), notes)).open(Endpoint.COMPLETE, "r", _request()) as one:
        one.answered(ok())
    assert len(notes.records) == 1
    assert "request r could not be recorded" in caplog.text


def _request() -> web.Request:
    return make_mocked_request("POST", "/")
