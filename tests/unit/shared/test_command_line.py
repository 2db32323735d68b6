"""`steersman SUBCOMMAND`: found by name at run time, with plain words when it is not there."""

import sys
import types

import pytest

from shared import command_line
from shared.version import PROTOCOL_VERSION, software_version


def install_fake_balancer(monkeypatch: pytest.MonkeyPatch, seen: list[list[str]]) -> None:
    def fake_main(arguments: list[str]) -> int:
        seen.append(arguments)
        return 7

    module = types.ModuleType("balancer.cli")
    vars(module)["main"] = fake_main
    monkeypatch.setitem(sys.modules, "balancer.cli", module)


def break_import(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def failing_import(target: str) -> command_line.Main:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr(command_line, "load_main", failing_import)


def test_a_subcommand_gets_the_rest_of_the_line_and_its_status_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[list[str]] = []
    install_fake_balancer(monkeypatch, seen)
    assert command_line.main(["balancer", "--help", "--x", "1"]) == 7
    assert seen == [["--help", "--x", "1"]]


def test_help_lists_all_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in command_line.SUBCOMMANDS)


@pytest.mark.parametrize("words", [[], ["balance"], ["--verbose"]])
def test_no_or_unknown_subcommand_is_refused_with_the_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "usage: steersman" in printed.err
    assert all(repr(word) in printed.err for word in words)


@pytest.mark.parametrize(("word", "meant"), [("statsu", "status"), ("balance", "balancer"), ("comp", "completion")])
def test_a_misspelt_subcommand_leads_to_the_one_that_was_meant(
    word: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main([word]) == 2
    assert f"there is no subcommand {word!r}; did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--slots", "many"], ["--slotz", "1"]])
def test_a_mistake_in_the_agents_flags_leads_to_its_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["agent", *words]) == 2
    assert "`steersman agent --help` lists the flags" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["llama_cpp", "llama_cpp.llama_cpp", "numpy"])
def test_a_missing_extra_is_one_sentence(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    break_import(monkeypatch, package)
    assert command_line.main(["agent"]) == 1
    printed = capsys.readouterr().err
    assert "pip install 'steersman[agent]'" in printed
    assert printed.count("\n") == 1


def test_a_mistake_of_ours_is_not_taken_for_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    break_import(monkeypatch, "agent.no_such_module")
    with pytest.raises(ModuleNotFoundError):
        command_line.main(["agent"])


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_the_version_is_one_line(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main([word]) == 0
    assert capsys.readouterr().out == f"steersman {software_version()} (link protocol {PROTOCOL_VERSION})\n"


def test_every_subcommand_can_be_loaded_and_completed(capsys: pytest.CaptureFixture[str]) -> None:
    for entry in command_line.SUBCOMMANDS.values():
        assert bool(entry.settings) != bool(entry.flags)
        assert callable(command_line.load_main(entry.target))
    assert command_line.main(["completion", "fish"]) == 0
    printed = capsys.readouterr().out
    assert all(f"-a {name} " in printed for name in command_line.SUBCOMMANDS)


def test_the_demos_flags_are_those_that_its_help_shows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["demo", "--help"])
    printed = capsys.readouterr().out
    assert all(flag in printed for flag, _ in command_line.SUBCOMMANDS["demo"].flags)


@pytest.mark.parametrize("words", [[], ["powershell"]])
def test_a_shell_that_is_not_known_is_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["completion", *words]) == 2
    assert "bash, zsh or fish" in capsys.readouterr().err
