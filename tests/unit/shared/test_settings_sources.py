"""Flags beat variables, variables beat the file, and every mistake is one sentence."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from shared.settings_sources import (
    Address,
    AlsoSpelled,
    Command,
    Duration,
    HostPort,
    Positional,
    SettingsError,
    SettingsModel,
    Spelled,
    load_settings,
    parse_address,
    parse_duration,
)


class Example(SettingsModel):
    """Some of everything."""

    slots: int = Field(ge=0)
    drain_timeout_seconds: Duration = 60.0
    peers: list[HostPort] = Field(default=[])
    compat_addr: Annotated[str, AlsoSpelled("compat-openai-addr")] = "here"
    loud: bool = False
    name: str | None = None


COMMAND = Command(program="steersman example", summary="An example.", environment_prefix="EXAMPLE_")


def load(*arguments: str, **environment: str) -> Example:
    return load_settings(Example, COMMAND, arguments, environment)


def test_a_flag_beats_a_variable_and_a_variable_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('slots = 1\nname = "file"\ndrain-timeout = "3s"\n', encoding="utf-8")
    found = load("--config", str(file), "--slots", "3", EXAMPLE_SLOTS="2", EXAMPLE_NAME="variable")
    assert found == Example(slots=3, name="variable", drain_timeout_seconds=3.0)


def test_the_file_may_be_named_by_a_variable_and_spell_its_keys_with_underscores(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("slots = 1\ndrain_timeout = 250\npeers = ['a:1']\nloud = true\n", encoding="utf-8")
    found = load(EXAMPLE_CONFIG=str(file))
    assert (found.drain_timeout_seconds, found.peers, found.loud) == (0.25, [Address("a", 1)], True)


@pytest.mark.parametrize("value", ["1.5", "nan", "-inf"])
def test_a_duration_in_the_file_is_no_fraction_that_could_be_read_as_seconds(tmp_path: Path, value: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"slots = 1\ndrain-timeout = {value}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="drain-timeout: must be whole milliseconds"):
        load("--config", str(file))


def test_lists_repeat_as_flags_and_take_commas_in_a_variable() -> None:
    peers = [Address("a", 1), Address("::1", 2)]
    assert load("--slots", "1", "--peers", "a:1", "--peers", "[::1]:2").peers == peers
    assert load(EXAMPLE_SLOTS="1", EXAMPLE_PEERS="a:1,[::1]:2").peers == peers


def test_booleans_and_second_spellings() -> None:
    assert load("--slots", "1", "--loud").loud
    assert not load("--slots", "1", "--no-loud", EXAMPLE_LOUD="true").loud
    assert load("--slots", "1", "--compat-openai-addr", "there").compat_addr == "there"


def test_a_foreign_variable_under_the_prefix_is_ignored() -> None:
    assert load(EXAMPLE_SLOTS="1", EXAMPLE_SERVICE_HOST="10.0.0.1").slots == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "part"),
    [
        ([], {}, "--slots is required"),
        (["--slots", "many"], {}, "--slots: must be an integer"),
        ([], {"EXAMPLE_SLOTS": "-1"}, "EXAMPLE_SLOTS: must be at least 0"),
        (["--slots", "1", "--slotz", "2"], {}, "there is no flag --slotz; did you mean --slots?"),
        (["--slots", "1", "--slotz=2"], {}, "there is no flag --slotz; did you mean --slots?"),
        (["--slots", "1", "--compat-openai-adr", "x"], {}, "did you mean --compat-openai-addr?"),
        (["--slots", "1", "left", "over"], {}, "there is no use for 'left' 'over'"),
        (["--slots", "1", "--peers", "nowhere"], {}, "--peers: must be HOST:PORT"),
        (["--slots", "1", "--peers", "http://a:1"], {}, "--peers: must be HOST:PORT alone: leave out http://"),
        (["--slots", "1", "--drain-timeout", "soon"], {}, "--drain-timeout: must be whole milliseconds"),
        (["--slots", "1", "--config", "/nonexistent.toml"], {}, "/nonexistent.toml: cannot be read"),
        (["--slo", "1"], {}, "there is no flag --slo; did you mean --slots?"),
        (
            ["--name", "x", "--peers", "a"],
            {},
            "--peers: must be HOST:PORT with a port of 0 to 65535; --slots is required",
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_names_where_it_was_made(
    arguments: list[str], environment: dict[str, str], part: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(*arguments, **environment)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "errors.pydantic" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "part"), [("slotz = 1", "'slotz'; did you mean slots?"), ("slots =", "is not TOML")]
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, content: str, part: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load("--config", str(file))
    assert str(file) in str(caught.value)
    assert part in str(caught.value)


def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        load("--help")
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    for flag in ("--config", "--slots", "--drain-timeout", "--peers", "--compat-openai-addr", "--no-loud"):
        assert flag in shown


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1500", 1.5), (1500, 1.5), ("500ms", 0.5), ("10s", 10.0), ("1.5m", 90.0), ("2h", 7200.0), ("0", 0.0)],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "s", "1d", True, 1.5, None, "1" * 40, "9999999999h"])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:65536", "::1:80", "host:²", 80])
def test_what_is_no_address(text: object) -> None:
    with pytest.raises(ValueError):
        parse_address(text)


def test_an_address_reads_back() -> None:
    for text in ("127.0.0.1:8060", "[::1]:8060", "example.org:1"):
        assert str(parse_address(text)) == text


class Worded(SettingsModel):
    """Words of the line, and flags."""

    action: Annotated[Literal["get", "set"], Positional("ACTION")]
    file: Annotated[Path | None, Positional("FILE")] = None
    as_json: Annotated[bool, Spelled("json")] = False


TEACHING = Command("steersman worded", "Words.", "WORDED_", lesson=("examples:", "  steersman worded get"))


def test_words_of_the_line_stand_anywhere_and_come_from_nowhere_else(tmp_path: Path) -> None:
    expected = Worded(action="set", file=Path("x"), as_json=True)
    for line in (["set", "x", "--json"], ["--json", "set", "x"], ["set", "--json", "x"]):
        assert load_settings(Worded, TEACHING, line, {"WORDED_FILE": "y"}) == expected
    config = tmp_path / "x.toml"
    config.write_text('file = "z"\n', encoding="utf-8")
    with pytest.raises(SettingsError, match="there is no setting 'file'"):
        load_settings(Worded, TEACHING, ["get", "--config", str(config)], {})


@pytest.mark.parametrize(("line", "words"), [(["other"], "ACTION: must be one of"), ([], "ACTION")])
def test_a_wrong_word_is_named_as_the_help_names_it(line: list[str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load_settings(Worded, TEACHING, line, {})


def test_a_lesson_ends_the_help_as_it_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load_settings(Worded, TEACHING, ["--help"], {})
    assert capsys.readouterr().out.endswith("\n\nexamples:\n  steersman worded get\n")


class Needy(SettingsModel):
    """More than one that must be given."""

    management_addr: HostPort
    slots: int
    name: str = "x"


NEEDY = Command("steersman needy", "Needs.", "NEEDY_", lesson=("examples:", "  steersman needy --slots 1", "  other"))


def test_all_that_is_missing_is_said_at_once_with_an_example() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(Needy, NEEDY, [], {})
    assert str(caught.value) == "--management-addr and --slots are required, as in: steersman needy --slots 1"
    assert "`steersman needy --help`" in NEEDY.help_pointer
