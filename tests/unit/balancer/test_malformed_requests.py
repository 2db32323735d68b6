"""No line quotes what a client sent that was no HTTP."""

import logging

import pytest
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from balancer.malformed_requests import TameMalformedRequests
from shared.log_output import formatter_of


def record_of(message: str, *arguments: object, name: str = "balancer", error: Exception | None = None) -> str:
    """The line as it is written."""
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord(name, logging.ERROR, __file__, 1, message, arguments, exc_info)
    assert TameMalformedRequests().filter(record)
    return formatter_of("readable", is_journal=False).format(record)


def test_a_malformed_request_is_a_warning_without_its_bytes() -> None:
    error = BadHttpMessage('Data after `Connection: close`: b\'{"raw_prompt":"secret"}\'')
    line = record_of("Error handling request from %s", "10.0.0.1", name="aiohttp.server", error=error)
    assert line.count("\n") == 0
    assert " WARNING " in line
    assert line.endswith("a request from 10.0.0.1 was not valid HTTP (BadHttpMessage)")


def test_a_body_that_cannot_be_decompressed_is_a_warning() -> None:
    error = web.RequestPayloadError("400, message: Can not decode content-encoding: gzip")
    line = record_of("Unhandled exception", name="aiohttp.server", error=error)
    assert line.endswith("WARNING aiohttp.server: a request was not valid HTTP (RequestPayloadError)")


@pytest.mark.parametrize("name", ["aiohttp.server", "balancer"])
def test_the_traceback_of_a_bug_stays(name: str) -> None:
    with pytest.raises(KeyError) as raised:
        raise KeyError("a bug")
    assert "Traceback" in record_of("failed", name=name, error=raised.value)
