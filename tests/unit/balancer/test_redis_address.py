"""Addresses of the state database: what they may say, and that secrets in them stay there."""

import pytest

from balancer.desired_state_file import path_of_url
from balancer.desired_state_open import open_store
from balancer.desired_state_store import InMemoryDesiredStateStore, StoreRefused
from balancer.redis_address import RedisAddress, read_redis_address


def read(url: str, password: str | None = None, prefix: str = "steersman:") -> RedisAddress:
    return read_redis_address(url, password, prefix)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost", "redis://localhost:6379"),
        ("redis://localhost:6380/2", "redis://localhost:6380"),
        ("rediss://user:hunter2@db.example:7000/0?ssl_ca_certs=/ca.pem", "rediss://db.example:7000"),
        ("redis://[::1]:6379/0", "redis://::1:6379"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("unix://:hunter2@/run/redis.sock?db=3", "unix:///run/redis.sock"),
    ],
)
def test_where_it_is_is_shown_and_no_secret(url: str, shown: str) -> None:
    address = read(url, "hunter3")
    assert address.shown == shown
    assert "hunter" not in repr(address)


def test_the_prefix_in_the_address_goes_before_the_setting_and_does_not_reach_the_client() -> None:
    address = read("redis://localhost/1?prefix=blue:&ssl_cert_reqs=none")
    assert address.key_prefix == "blue:"
    assert address.url == "redis://localhost/1?ssl_cert_reqs=none"
    assert read("redis://localhost").key_prefix == "steersman:"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://", "names no host"),
        ("redis:///0", "names no host"),
        ("unix://", "names no socket"),
        ("redis://localhost:port/0", "malformed"),
        ("redis://localhost:99999/0", "malformed"),
        ("redis://localhost/zero", "must be a number"),
        ("unix:///run/redis.sock?db=x", "must be a number"),
        ("redis://localhost?socket_timeout=900", "unknown option 'socket_timeout'"),
        ("redis://localhost?prefix=%00", "key prefix"),
        ("redis://localhost?prefix=" + "a" * 129, "key prefix"),
    ],
)
def test_what_it_may_not_say(url: str, says: str) -> None:
    with pytest.raises(StoreRefused, match=says):
        read(url)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///var/lib/steersman/state.json", "/var/lib/steersman/state.json"),
        ("file:///with%20space/%3F.json", "/with space/?.json"),
    ],
)
def test_a_file_address_has_an_absolute_path(url: str, path: str) -> None:
    assert path_of_url(url) == path


@pytest.mark.parametrize(
    "url",
    [
        "file://state.json",
        "file://./state.json",
        "file://~/state.json",
        "file://",
        "file:///",
        "file:///folder/",
        "file:///a?b",
        "file:///a#b",
        "file:///a%00b",
    ],
)
def test_any_other_file_address_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(StoreRefused, match=r"file:///var/lib|%3F"):
        path_of_url(url)


async def test_memory_is_an_address() -> None:
    assert isinstance(await open_store("memory://"), InMemoryDesiredStateStore)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("memory", r"did you mean memory://\?"),
        ("", "must be an address"),
        ("/var/lib/state.json", "must be an address"),
        ("file:relative.json", "must be an address"),
        ("memory://something", "takes nothing"),
        ("postgres://localhost/0", "unknown scheme 'postgres'"),
        ("http://localhost", "unknown scheme 'http'"),
    ],
)
async def test_other_words_are_refused_with_what_is_known(url: str, says: str) -> None:
    with pytest.raises(StoreRefused, match=says):
        await open_store(url)
