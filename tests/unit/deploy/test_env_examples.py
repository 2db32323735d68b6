"""The example environment files are what the settings' models say, and mean the defaults."""

import re
from pathlib import Path

import pytest

from agent.settings import COMMAND as AGENT
from agent.settings import AgentSettings
from balancer.settings import COMMAND as BALANCER
from balancer.settings import BalancerSettings
from deploy.generate_env import FILES, FOLDER, EnvFile, main, text_of, unit_environment
from shared.settings_again import credential_flags, read_environment_file
from shared.settings_sources import Command, SettingsModel, load_settings, options_of

UNITS = FOLDER / "systemd"
SIDES: list[tuple[type[SettingsModel], Command, str, tuple[str, ...]]] = [
    (BalancerSettings, BALANCER, "steersman-balancer.service", ("balancer.env",)),
    (AgentSettings, AGENT, "steersman-agent@.service", ("agent.env", "agent-instance.env")),
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_file_is_in_step_with_the_settings(file: EnvFile) -> None:
    there = (FOLDER / "env" / file.name).read_text(encoding="utf-8")
    assert there == text_of(file), "run: python -m deploy.generate_env"


def test_the_generators_check_agrees() -> None:
    assert main(["--check"]) == 0


@pytest.mark.parametrize(("model", "command", "unit", "names"), SIDES)
def test_every_setting_is_in_exactly_one_file(
    model: type[SettingsModel], command: Command, unit: str, names: tuple[str, ...]
) -> None:
    text = "".join((FOLDER / "env" / name).read_text(encoding="utf-8") for name in names)
    found = re.findall(rf"^#?({command.environment_prefix}[A-Z_]+)=", text, re.MULTILINE)
    wanted = [command.environment_prefix + one.flag.upper().replace("-", "_") for one in options_of(model)]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize(("model", "command", "unit", "names"), SIDES)
def test_with_every_line_switched_on_the_settings_are_what_they_are_without(
    model: type[SettingsModel], command: Command, unit: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    as_shipped: dict[str, str] = {}
    switched_on: dict[str, str] = {}
    for name in names:
        shipped = FOLDER / "env" / name
        copy = tmp_path / name
        copy.write_text(re.sub(r"^#(?=STEERSMAN)", "", shipped.read_text(encoding="utf-8"), flags=re.MULTILINE))
        as_shipped |= read_environment_file(shipped)
        switched_on |= read_environment_file(copy)
    with_values = {name: value for name, value in switched_on.items() if value}
    assert len(with_values) > len(as_shipped)
    of_unit = {name: value for name, value in unit_environment(UNITS / unit).items() if "%" not in value}
    assert load_settings(model, command, [], {**of_unit, **with_values}) == load_settings(
        model, command, [], {**of_unit, **as_shipped}
    )


@pytest.mark.parametrize(("model", "command", "unit", "names"), SIDES)
def test_the_unit_offers_a_credential_for_every_file_and_no_other(
    model: type[SettingsModel], command: Command, unit: str, names: tuple[str, ...]
) -> None:
    text = (UNITS / unit).read_text(encoding="utf-8")
    offered = dict(re.findall(r"^LoadCredential=([a-z-]+):(\S+)$", text, re.MULTILINE))
    wanted = {flag.removesuffix("-file") for flag in credential_flags(model)}
    assert offered == {name: f"steersman.{name}" for name in wanted}  # a relative path: one that is missing is left out


@pytest.mark.parametrize(("model", "command", "unit", "names"), SIDES)
def test_the_unit_names_its_environment_files_to_the_process_too(
    model: type[SettingsModel], command: Command, unit: str, names: tuple[str, ...]
) -> None:
    text = (UNITS / unit).read_text(encoding="utf-8")
    read_by_systemd = re.findall(r"^EnvironmentFile=-?(\S+)$", text, re.MULTILINE)
    told = unit_environment(UNITS / unit)[f"{command.environment_prefix}ENVIRONMENT_FILES"]
    assert told.split(":") == read_by_systemd


@pytest.mark.parametrize(("model", "command", "unit", "names"), SIDES)
def test_the_unit_waits_longer_than_the_drain(
    model: type[SettingsModel], command: Command, unit: str, names: tuple[str, ...]
) -> None:
    text = (UNITS / unit).read_text(encoding="utf-8")
    (timeout_seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert int(timeout_seconds) >= model.model_fields["drain_timeout_seconds"].default + 30
