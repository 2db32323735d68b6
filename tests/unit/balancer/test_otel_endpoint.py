"""Where spans go, as an operator may write it."""

import pytest

from balancer.otel_endpoint import check_otel_endpoint


@pytest.mark.parametrize(
    ("given", "posted_to"),
    [
        (None, None),
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://otel.example.com/", "https://otel.example.com/v1/traces"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ("http://otel/own/path", "http://otel/own/path"),
    ],
)
def test_a_url_without_a_path_has_the_standard_one(given: str | None, posted_to: str | None) -> None:
    assert check_otel_endpoint(given) == posted_to


@pytest.mark.parametrize(
    "given", ["", "127.0.0.1:4318", "grpc://otel:4317", "http://", "http://otel:99999", "http://otel\n", "http://[::1"]
)
def test_what_is_no_url_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="must be a URL"):
        check_otel_endpoint(given)


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="OTEL_EXPORTER_OTLP_HEADERS") as refused:
        check_otel_endpoint("http://me:s3cret@otel:4318")
    assert "s3cret" not in str(refused.value)
