"""What an origin is; the answers themselves are checked through real sockets."""

import pytest

from balancer.cors import parse_origin


@pytest.mark.parametrize("origin", ["http://example.com", "https://app.example.com:8443", "http://[::1]:3000"])
def test_whole_origins_are_taken(origin: str) -> None:
    assert parse_origin(origin) == origin


@pytest.mark.parametrize(
    "value", ["", "*", "example.com", "foo.example.com:80", "http://", "http://a.b/", "http://A.b", "http://a.b?x"]
)
def test_what_no_browser_sends_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="whole origin"):
        parse_origin(value)
