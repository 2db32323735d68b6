"""Credentials as a source of settings, and what a second reading finds."""

import asyncio
import logging
from pathlib import Path

import pytest
from pydantic import Field

from shared.settings_again import (
    SettingsReload,
    SettingsSource,
    credential_flags,
    read_environment_file,
    with_credentials,
)
from shared.settings_sources import Command, SettingsError, SettingsModel

COMMAND = Command(program="steersman x", summary="x", environment_prefix="X_")


class Settings(SettingsModel):
    keys_file: Path | None = Field(None, description="keys")
    tls_cert: Path | None = Field(None, description="certificate")
    log_level: str = Field("info", description="level")
    slots: int = Field(4, description="slots")


def source(*arguments: str, **environment: str) -> SettingsSource[Settings]:
    return SettingsSource(Settings, COMMAND, arguments, environment)


def test_a_credential_is_the_file_of_the_flag_that_it_is_called_like(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("k")
    (tmp_path / "tls-cert").write_text("c")
    settings = source(CREDENTIALS_DIRECTORY=str(tmp_path)).first()
    assert settings.keys_file == tmp_path / "keys"
    assert settings.tls_cert == tmp_path / "tls-cert"
    assert credential_flags(Settings) == ["keys-file", "tls-cert"]


def test_a_credential_that_is_not_there_sets_nothing(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("k")
    assert source(CREDENTIALS_DIRECTORY=str(tmp_path)).first() == Settings()
    assert with_credentials({"A": "b"}, Settings, COMMAND) == {"A": "b"}


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_credentials_that_cannot_be_looked_at_are_no_missing_ones(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose manager has no mounts of its own: without this the balancer would stand open."""

    def refuse(path: Path) -> None:
        raise error

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(SettingsError, match=r"keys: cannot be looked at \((Permission denied|Input/output error)\)"):
        source(CREDENTIALS_DIRECTORY=str(tmp_path)).first()


def test_flags_and_variables_come_before_a_credential(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("k")
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path), "X_KEYS_FILE": "/variable"}
    assert source(**environment).first().keys_file == Path("/variable")
    assert source("--keys-file", "/flag", **environment).first().keys_file == Path("/flag")


def test_an_environment_file_is_read_as_systemd_reads_the_plain_part_of_one(tmp_path: Path) -> None:
    file = tmp_path / "x.env"
    file.write_text("# X_A=1\n; X_B=1\n\n X_C = 1\nX_D=one two \nX_E=\"quoted\"\nX_F='it'\nX_G=\nnot a line\nX_H=a=b\n")
    found = {"X_D": "one two", "X_E": "quoted", "X_F": "it", "X_G": "", "X_H": "a=b"}
    assert read_environment_file(file) == found


def test_a_second_reading_finds_what_changed_in_the_environment_files(tmp_path: Path) -> None:
    common, own = tmp_path / "common.env", tmp_path / "own.env"
    common.write_text("X_LOG_LEVEL=warning\nX_SLOTS=2\n")
    # What systemd made of the files when it started the process, and a variable from elsewhere.
    started = source(
        X_ENVIRONMENT_FILES=f"{common}:{own}", X_LOG_LEVEL="warning", X_SLOTS="2", X_KEYS_FILE="/from/the/unit"
    )
    assert started.first().log_level == "warning"
    common.write_text("X_LOG_LEVEL=error\n")
    own.write_text("X_LOG_LEVEL=debug\n")
    again = started.again()
    assert again.log_level == "debug", "the later file wins"
    assert again.slots == 4, "what is no longer in a file is no longer set"
    assert again.keys_file == Path("/from/the/unit")


def test_flags_stay_above_the_files(tmp_path: Path) -> None:
    file = tmp_path / "x.env"
    file.write_text("X_LOG_LEVEL=error\n")
    started = source("--log-level", "debug", X_ENVIRONMENT_FILES=str(file))
    assert started.first().log_level == started.again().log_level == "debug"


def test_a_second_reading_reads_the_config_file_too(tmp_path: Path) -> None:
    config = tmp_path / "x.toml"
    config.write_text('log-level = "warning"\n')
    started = source("--config", str(config))
    assert started.first().log_level == "warning"
    config.write_text('log-level = "debug"\n')
    assert started.again().log_level == "debug"


@pytest.mark.parametrize(
    ("arguments", "environment", "may_change"),
    [
        ((), {}, False),
        (("--slots", "3"), {"X_SLOTS": "3"}, False),
        (("--config", "/f"), {}, True),
        (("--config=/f",), {}, True),
        ((), {"X_CONFIG": "/f"}, True),
        ((), {"X_ENVIRONMENT_FILES": "/f"}, True),
    ],
)
def test_it_says_whether_a_second_reading_is_worth_it(
    arguments: tuple[str, ...], environment: dict[str, str], may_change: bool
) -> None:
    assert source(*arguments, **environment).may_change is may_change


def test_a_file_that_only_the_manager_may_read_does_not_keep_it_from_starting(tmp_path: Path) -> None:
    unreadable = tmp_path / "folder.env"
    unreadable.mkdir()  # a root user may read every file
    started = source(X_ENVIRONMENT_FILES=str(unreadable), X_SLOTS="3")
    assert started.first().slots == 3
    with pytest.raises(SettingsError, match=r"folder\.env: cannot be read"):
        started.again()


async def test_a_reload_takes_over_what_may_change_and_names_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "x.env"
    started = source(X_ENVIRONMENT_FILES=str(file))
    taken: list[str] = []
    reload = SettingsReload(
        started, await asyncio.to_thread(started.first), lambda new: taken.append(new.log_level), ["log_level"]
    )
    with caplog.at_level(logging.INFO):
        file.write_text("X_LOG_LEVEL=debug\nX_SLOTS=9\n")
        await reload.step()
    assert taken == ["debug"]
    assert "settings were read again: log_level debug" in caplog.text
    assert "in force after the next start: slots" in caplog.text


async def test_a_reload_with_a_wrong_setting_changes_nothing_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "x.env"
    started = source(X_ENVIRONMENT_FILES=str(file))
    taken: list[str] = []
    reload = SettingsReload(
        started, await asyncio.to_thread(started.first), lambda new: taken.append(new.log_level), ["log_level"]
    )
    file.write_text("X_LOG_LEVEL=debug\nX_SLOTS=many\n")
    await reload.step()
    assert taken == []
    assert "settings stay what they were: X_SLOTS" in caplog.text
