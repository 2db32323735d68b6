"""The agents' token: read once, shown as a bearer, compared in constant time."""

from pathlib import Path

import pytest

from balancer.access import AgentAccess, TokenFileRefused, is_loopback, read_token, warn_when_open
from shared.settings_sources import Address


def written(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_the_token_is_the_files_content_without_its_newline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_token(written(tmp_path, b"s3cret\n"), "--agent-token-file") == b"s3cret"
    assert not caplog.records


def test_a_file_that_others_may_read_is_used_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_token(written(tmp_path, b"s3cret", 0o644), "--agent-token-file") == b"s3cret"
    assert "chmod 600" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"x" * 5000])
def test_a_file_without_one_token_is_refused_by_a_sentence(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(TokenFileRefused, match="--agent-token-file"):
        read_token(written(tmp_path, content), "--agent-token-file")


def test_a_missing_file_is_refused_by_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TokenFileRefused, match=r"--agent-token-file: .*absent cannot be read"):
        read_token(tmp_path / "absent", "--agent-token-file")


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


def test_an_open_address_is_said_loudly(caplog: pytest.LogCaptureFixture) -> None:
    warn_when_open(Address("0.0.0.0", 8060), "management", has_agent_token=False)
    assert "EVERYTHING IS OPEN" in caplog.text
    assert "--agent-token-file" in caplog.text
    caplog.clear()
    warn_when_open(Address("127.0.0.1", 8060), "management", has_agent_token=False)
    assert not caplog.records
