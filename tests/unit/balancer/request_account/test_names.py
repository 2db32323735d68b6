"""The names that a request goes by: ours, its client's own, and those of its trace."""

import pytest
from aiohttp.test_utils import make_mocked_request

from balancer.request_names import REQUEST_ID
from balancer.request_record import Endpoint
from shared.trace_context import read_traceparent
from tests.support.account_driver import AccountDriver

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_id_is_ours_and_the_clients_own_is_kept_beside_it() -> None:
    driver = AccountDriver()
    with driver.open(x_request_id="their-id:1") as account:
        assert driver.request[REQUEST_ID] == "r1"
        account.named("chosen")
    assert driver.request[REQUEST_ID] == "chosen"
    assert (driver.record.request_id, driver.record.client_request_id) == ("chosen", "their-id:1")


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 129, '"'])
def test_an_id_that_is_not_safe_is_nobodys(name: str) -> None:
    driver = AccountDriver()
    with driver.open(x_request_id=name):
        pass
    assert driver.record.client_request_id is None


def test_a_trace_is_handed_on_as_it_came_when_we_export_none() -> None:
    driver = AccountDriver()
    with driver.open(traceparent=TRACE) as account:
        assert account.traceparent == TRACE
    assert driver.record.trace_id == "0af7651916cd43dd8448eb211c80319c"
    with AccountDriver().open() as account:
        assert account.traceparent is None


def test_our_own_span_stands_between_client_and_agent() -> None:
    driver = AccountDriver(makes_spans=True)
    with driver.open(traceparent=TRACE) as account:
        told = read_traceparent(account.traceparent)
    trace = driver.record.trace
    assert trace is not None
    assert told is not None
    assert (trace.trace_id, trace.parent_id, told.parent_id) == (told.trace_id, TRACE.split("-")[2], trace.span_id)
    assert trace.span_id != trace.parent_id


def test_a_request_without_a_trace_begins_one_when_we_export() -> None:
    first, second = AccountDriver(makes_spans=True), AccountDriver(makes_spans=True)
    for driver in (first, second):
        with driver.open() as account:
            assert read_traceparent(account.traceparent) is not None
    assert first.record.trace_id != second.record.trace_id
    assert first.record.trace is not None
    assert first.record.trace.parent_id is None


def test_two_traceparents_are_none() -> None:
    driver = AccountDriver()
    request = make_mocked_request("POST", "/", headers=[("traceparent", TRACE), ("traceparent", TRACE)])
    with driver.books.open(Endpoint.COMPLETE, "r", request) as account:
        assert account.traceparent is None
