"""Completion scripts hold every flag of every command, and nothing that a shell would run."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from shared.settings_sources import AlsoSpelled, Positional, SettingsModel
from shared.shell_completion import HELP, Flag, Shell, Subcommand, described, script


class Example(SettingsModel):
    """Some of everything."""

    action: Annotated[Literal["get", "set"], Positional("ACTION")]
    file: Annotated[Path | None, Positional("FILE")] = None
    where: Annotated[str, AlsoSpelled("place")] = "here"
    key_file: Path | None = Field(None, description="it's [a] file: 100% `secret` $(touch x)")
    loud: bool = False
    level: Literal["low", "high"] = "low"


def test_a_command_is_described_by_its_settings() -> None:
    found = described("example", "An example.", Example)
    assert (found.words, found.takes_file) == (("get", "set"), True)
    assert {flag.spelling: flag.takes for flag in found.flags} == {
        "--help": "nothing",
        "--config": "file",
        "--where": "text",
        "--place": "text",
        "--key-file": "file",
        "--loud": "nothing",
        "--no-loud": "nothing",
        "--level": ("low", "high"),
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_all_commands_and_flags(shell: Shell) -> None:
    one = described("example", "An example's summary.", Example)
    text = script(shell, [one, Subcommand("demo", "It shows.", (HELP, Flag("--once", "once", "nothing")))])
    assert all(f" {flag.spelling.removeprefix('--')}" in text or flag.spelling in text for flag in one.flags)
    assert all(word in text for word in ("example", "demo", "get", "set", "low high", "once"))


def test_quotes_in_a_description_end_no_string() -> None:
    one = described("example", "An example's summary.", Example)
    assert r"it\'s [a] file: 100% `secret`" in script("fish", [one])
    assert r"it'\''s \[a\] file\: 100% `secret`" in script("zsh", [one])
    assert "secret" not in script("bash", [one])
