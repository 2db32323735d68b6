"""What `steersman agent` takes, and what it says when that is wrong."""

import ssl
from pathlib import Path

import pytest

from agent.settings import COMMAND, AgentSettings
from shared.settings_sources import Address, SettingsError, load_settings


def load(*arguments: str, **environment: str) -> AgentSettings:
    return load_settings(AgentSettings, COMMAND, arguments, environment)


def test_an_address_and_slots_are_enough() -> None:
    settings = load("--management-addr", "127.0.0.1:8060", "--slots", "4")
    assert settings.addresses == (Address("127.0.0.1", 8060),)
    assert (settings.slots, settings.name, settings.drain_timeout_seconds) == (4, None, 60.0)
    assert settings.read_token() is None


def test_several_balancers_each_once() -> None:
    settings = load("--management-addr", "a:1", "--management-addr", "b:2", "--management-addr", "a:1", "--slots", "1")
    assert settings.addresses == (Address("a", 1), Address("b", 2))


def test_everything_may_come_from_the_environment() -> None:
    settings = load(
        STEERSMAN_AGENT_MANAGEMENT_ADDR="a:1,[::1]:2",
        STEERSMAN_AGENT_SLOTS="2",
        STEERSMAN_AGENT_DRAIN_TIMEOUT="5s",
        STEERSMAN_AGENT_THREADS="3",
    )
    assert settings.addresses == (Address("a", 1), Address("::1", 2))
    assert (settings.slots, settings.drain_timeout_seconds, settings.threads) == (2, 5.0, 3)


def test_the_store_of_prefixes_is_chosen_by_the_agent_unless_its_size_is_given() -> None:
    needed = ("--management-addr", "a:1", "--slots", "1")
    assert load(*needed).prefix_store_size is None
    assert load(*needed, "--prefix-store-size", "0").prefix_store_size == 0
    assert load(*needed, "--prefix-store-size", "1073741824").prefix_store_size == 1 << 30


def test_more_slots_than_llama_cpp_has_are_taken_here_and_become_an_issue_later() -> None:
    assert load("--management-addr", "a:1", "--slots", "300").slots == 300


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--slots", "1"], "--management-addr is required"),
        (["--management-addr", "a:1"], "--slots is required"),
        (["--management-addr", "a:1", "--slots", "0"], "--slots"),
        (["--management-addr", "a", "--slots", "1"], "HOST:PORT"),
        (["--management-addr", "a:1", "--slots", "1", "--threads", "0"], "--threads"),
        (["--management-addr", "a:1", "--slots", "1", "--log-level", "loud"], "--log-level"),
        (["--management-addr", "a:1", "--slots", "1", "--drain-timeout", "-1"], "--drain-timeout"),
        (["--management-addr", "a:1", "--slots", "1", "--prefix-store-size", "-1"], "--prefix-store-size"),
    ],
)
def test_a_wrong_setting_is_one_sentence(arguments: list[str], part: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(*arguments)
    assert part in str(caught.value)


def test_the_token_is_read_from_its_file_without_the_line_end(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret-token\n", encoding="ascii")
    settings = load("--management-addr", "a:1", "--slots", "1", "--agent-token-file", str(file))
    assert settings.read_token() == "s3cret-token"


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"two\nlines", b"\xff", b"x" * 5000])
def test_a_token_file_that_is_wrong_is_named_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    settings = load("--management-addr", "a:1", "--slots", "1", "--agent-token-file", str(file))
    with pytest.raises(SettingsError) as caught:
        settings.read_token()
    assert str(file) in str(caught.value)
    assert "words" not in str(caught.value).removeprefix(str(file))


def test_a_token_file_that_is_absent_is_named(tmp_path: Path) -> None:
    settings = load("--management-addr", "a:1", "--slots", "1", "--agent-token-file", str(tmp_path / "no"))
    with pytest.raises(SettingsError, match="No such file"):
        settings.read_token()


def test_without_tls_nothing_is_trusted_and_with_it_what_this_host_trusts() -> None:
    needed = ("--management-addr", "a:1", "--slots", "1")
    assert load(*needed).read_tls() is None
    context = load(*needed, "--management-tls").read_tls()
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"", "as PEM"),
        (b"nonsense", "as PEM"),
        (b"\xff", "as PEM"),
        (b"x" * 1_048_577, "larger"),
    ],
)
def test_a_file_of_certificates_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    flags = ("--management-addr", "a:1", "--slots", "1", "--management-tls", "--management-ca-file", str(path))
    with pytest.raises(SettingsError, match=words) as caught:
        load(*flags).read_tls()
    assert str(path) in str(caught.value)


def test_certificates_to_trust_need_tls() -> None:
    with pytest.raises(SettingsError, match=r"^--management-ca-file needs --management-tls$"):
        load("--management-addr", "a:1", "--slots", "1", "--management-ca-file", "/ca.pem")
