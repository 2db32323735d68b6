"""Who may come in: what a header must show, which paths ask for nothing, and what is said of open addresses."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from balancer.access import (
    AgentAccess,
    Door,
    OpenService,
    ServiceGuard,
    is_loopback,
    refuse_in_plain_text,
    warn_when_open,
)
from balancer.key_ring import KeyRing, NamedKey
from shared.settings_sources import Address


@pytest.mark.parametrize("header", ["Bearer s3cret", "bearer s3cret", "Bearer  s3cret"])
def test_who_shows_the_token_comes_in(header: str) -> None:
    assert AgentAccess(b"s3cret").admits(header)


@pytest.mark.parametrize(
    "header",
    [None, "", "s3cret", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crets", "Basic s3cret", "Bearer \udcff\xff"],
)
def test_nobody_else_does(header: str | None) -> None:
    assert not AgentAccess(b"s3cret").admits(header)


def test_without_a_token_everybody_comes_in() -> None:
    assert AgentAccess(None).admits(None)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_only_this_machine_reaches_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_open_addresses_are_said_once_and_loudly(caplog: pytest.LogCaptureFixture) -> None:
    everywhere = [Address("0.0.0.0", 8060), Address("::", 8060)]
    warn_when_open(
        [
            OpenService("management", everywhere, "--management-token-file"),
            OpenService("inference", [Address("127.0.0.1", 8061)], "--inference-keys-file"),
            OpenService("the agents' socket", everywhere, "--agent-token-file"),
        ]
    )
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith("EVERYTHING IS OPEN")
    assert "management on [::]:8060" in said
    assert said.count("--management-token-file") == said.count("--agent-token-file") == 1
    assert "inference" not in said


def test_nothing_is_said_of_what_only_this_machine_reaches(caplog: pytest.LogCaptureFixture) -> None:
    warn_when_open([OpenService("management", [Address("127.0.0.1", 8060), Address("::1", 1)], "--x")])
    warn_when_open([])
    assert not caplog.records


# Guards of services


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


DOOR = Door(
    "compat",
    frozenset({"/health"}),
    refuse_in_plain_text,
    open_prefixes=("/agents/",),
    key_header=("x-api-key", frozenset({"/v1/complete"})),
)


def refusal(guard: ServiceGuard, path: str, **headers: str) -> web.Response | None:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return guard.refusal(make_mocked_request("GET", path, headers=given))


def guard_of(*keys: NamedKey, clock: Clock | None = None) -> ServiceGuard:
    return ServiceGuard(DOOR, KeyRing(keys), clock or Clock())


ALICE: NamedKey = ("alice", b"s3cret")


@pytest.mark.parametrize(
    ("path", "headers", "is_let_in"),
    [
        ("/v1/x", {"Authorization": "Bearer s3cret"}, True),
        ("/v1/x", {"Authorization": "bearer s3cret"}, True),
        ("/v1/x", {"Authorization": "Bearer s3cre"}, False),
        ("/v1/x", {"Authorization": "Basic s3cret"}, False),
        ("/v1/x", {"Authorization": ""}, False),
        ("/v1/x", {}, False),
        ("/v1/x", {"x_api_key": "s3cret"}, False),
        ("/v1/complete", {"x_api_key": "s3cret"}, True),
        ("/v1/complete", {"x_api_key": "s3crets"}, False),
        ("/v1/complete", {"x_api_key": ""}, False),
        ("/v1/complete", {"Authorization": "Bearer wrong", "x_api_key": "s3cret"}, True),
        ("/health", {}, True),
        ("/health/", {}, False),
        ("/agents/a", {}, True),
        ("/agents", {}, False),
    ],
)
def test_a_guard_lets_in_who_shows_a_key_and_everybody_at_open_paths(
    path: str, headers: dict[str, str], is_let_in: bool
) -> None:
    answer = refusal(guard_of(ALICE), path, **headers)
    assert (answer is None) is is_let_in
    if answer is not None:
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_without_keys_a_guard_lets_everybody_in() -> None:
    guard = ServiceGuard(DOOR, None, Clock())
    assert guard.is_open
    assert refusal(guard, "/v1/x") is None


def test_keys_can_be_changed() -> None:
    guard = guard_of(ALICE)
    guard.change(KeyRing([("bob", b"other")]))
    assert refusal(guard, "/v1/x", Authorization="Bearer s3cret") is not None
    assert refusal(guard, "/v1/x", Authorization="Bearer other") is None


def test_refusals_are_logged_once_a_minute_without_what_was_shown(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    guard = guard_of(ALICE, clock=clock)
    for _ in range(5):
        refusal(guard, "/v1/x", Authorization="Bearer sneaky")
    clock.now = 61.0
    refusal(guard, "/v1/x", Authorization="Bearer sneaky")
    first, second = (record.getMessage() for record in caplog.records)
    assert "1 requests" in first
    assert "5 requests" in second
    assert "sneaky" not in caplog.text
