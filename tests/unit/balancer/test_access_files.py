"""Files with secrets: read within bounds, and each reason to refuse one is a sentence."""

import os
from pathlib import Path

import pytest

from balancer.access_files import AccessFileRefused, read_access_file, read_token


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
    with pytest.raises(AccessFileRefused, match="--agent-token-file"):
        read_token(written(tmp_path, content), "--agent-token-file")


def test_a_missing_file_is_refused_by_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(AccessFileRefused, match=r"--agent-token-file: .*absent cannot be read"):
        read_token(tmp_path / "absent", "--agent-token-file")


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AccessFileRefused, match=r"may change .*token; chmod 600"):
        read_token(written(tmp_path, b"s3cret", 0o602), "--agent-token-file")


def test_what_is_no_secret_may_be_read_by_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, b"public", 0o644)
    assert read_access_file(path, "--tls-cert", 6, is_secret=False) == b"public"
    assert not caplog.records


def test_no_more_than_the_bound_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, b"1234567")
    assert read_access_file(path, "--x", 7) == b"1234567"
    with pytest.raises(AccessFileRefused, match=r"--x: .*token is larger than 6 bytes"):
        read_access_file(path, "--x", 6)


def test_neither_a_folder_nor_a_pipe_without_a_writer_keeps_us_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(AccessFileRefused, match=r"is not a regular file|Is a directory"):
            read_access_file(path, "--x", 10)


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AccessFileRefused, match="is not the name of a file"):
        read_access_file(Path("a\0b"), "--x", 10)
