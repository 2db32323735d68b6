"""A host without systemd's tools: in CI that is a failure, elsewhere the test is named as not run."""

from pathlib import Path

import pytest

from tests.support.systemd_tools import need


@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", pytest.fail.Exception), ("1", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_a_missing_tool_is_never_silent(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="NOT RUN: this host has no systemd-analyze"):
        need("systemd-analyze")


def test_a_tool_that_is_there_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "systemd-analyze"
    tool.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert need("systemd-analyze") == str(tool)
