"""What the commands take, and the sentences for what they do not."""

import pytest

from balancer.console.settings import (
    BENCH,
    STATE,
    STATUS,
    TOP,
    BenchSettings,
    StateSettings,
    StatusSettings,
    TopSettings,
)
from shared.settings_sources import Command, SettingsError, SettingsModel, load_settings

URL = "http://127.0.0.1:8061"
COMMANDS: list[tuple[Command, type[SettingsModel]]] = [
    (STATUS, StatusSettings),
    (TOP, TopSettings),
    (STATE, StateSettings),
    (BENCH, BenchSettings),
]


def test_a_certificate_to_trust_means_tls() -> None:
    assert not load_settings(StatusSettings, STATUS, [], {}).speaks_tls
    assert load_settings(StatusSettings, STATUS, ["--tls"], {}).speaks_tls
    assert load_settings(StatusSettings, STATUS, ["--cacert", "x.pem"], {}).speaks_tls


def test_where_the_balancer_is_may_be_a_variable_for_all_of_them() -> None:
    settings = load_settings(TopSettings, TOP, [], {"STEERSMAN_MANAGEMENT_ADDR": "b:1"})
    assert str(settings.management_addr) == "b:1"


def test_flags_and_words_stand_in_any_order() -> None:
    for line in (["set", "x.json", "--yes"], ["--yes", "set", "x.json"], ["set", "--yes", "x.json"]):
        settings = load_settings(StateSettings, STATE, line, {})
        assert (settings.action, str(settings.file), settings.yes) == ("set", "x.json", True)
    assert str(load_settings(StateSettings, STATE, ["set", "-"], {}).file) == "-"


def test_words_are_not_taken_from_the_environment() -> None:
    with pytest.raises(SettingsError, match=r"get\|set\|edit"):
        load_settings(StateSettings, STATE, [], {"STEERSMAN_ACTION": "get"})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["change"], "get|set|edit: must be one of 'get', 'set' or 'edit'"),
        (["set"], "set needs FILE"),
        (["get", "x.json"], "did you mean steersman state set x.json?"),
    ],
)
def test_a_wrong_line_of_state_is_a_sentence(line: list[str], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(StateSettings, STATE, line, {})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ([], "URL"),
        (["127.0.0.1:8061"], "URL: must be an address such as"),
        (["ftp://x"], "URL: must be an address such as"),
        (["http://x:port"], "URL: must be an address such as"),
        (["http://alice:secret@x"], "--key-file"),
        ([f"{URL}/api/v1/x"], "--api chooses the path"),
        ([URL, "--requests", "0"], "--requests: must be at least 1"),
        ([URL, "--streams", "1001"], "--streams: must be at most 1000"),
        ([URL, "--limit", "0"], "a bench is bounded"),
        ([URL, "--requests", "100000", "--max-tokens", "1000"], "at most 10,000,000"),
        ([URL, "--api", "chat"], "--api: must be one of"),
    ],
)
def test_a_bench_without_bounds_or_address_is_refused(line: list[str], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(BenchSettings, BENCH, line, {})
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("command", "model"), COMMANDS)
def test_help_teaches_by_examples(
    command: Command, model: type[SettingsModel], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        load_settings(model, command, ["--help"], {})
    assert left.value.code == 0
    printed = capsys.readouterr().out
    assert f"examples:\n  {command.program}" in printed
    assert all(len(line) <= 90 for line in printed.splitlines())


@pytest.mark.parametrize(("command", "model"), COMMANDS)
def test_the_examples_are_lines_that_the_command_takes(command: Command, model: type[SettingsModel]) -> None:
    whole = "\n".join(command.lesson).replace("\\\n", "")
    lines = [line for line in whole.splitlines() if command.program in line]
    assert len(lines) >= 3
    for line in lines:
        words = line[line.index(command.program) + len(command.program) :]
        for end in ("|", ">", " ||"):
            words = words.split(end)[0]
        load_settings(model, command, words.split(), {})
