"""Settings from a service manager's hands: credentials beside the other sources, and a second reading at SIGHUP.

A credential (systemd's LoadCredential=) that is called like a flag for a file, without `-file`, is that file: with
`inference-keys` among the credentials a balancer has `--inference-keys-file`. Flags and variables come before it.

A process cannot see what has changed in the environment files of its unit, so the unit names them once more, in
`<PREFIX>ENVIRONMENT_FILES`, and they are read again here. What a process takes over of that is its own choice.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic

from shared.settings_sources import Command, Settings, SettingsError, SettingsModel, load_settings, options_of

MAX_ENVIRONMENT_FILE_BYTES: Final = 1 << 20

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")


_log = logging.getLogger(__name__)


class SettingsSource(Generic[Settings]):
    """Where the settings of this process come from: `first` at the start, `again` as often as one likes."""

    def __init__(
        self, model: type[Settings], command: Command, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self._model = model
        self._command = command
        self._arguments = list(arguments)
        self._environment = dict(environment)
        named = environment.get(f"{command.environment_prefix}ENVIRONMENT_FILES", "")
        self._files = [Path(name) for name in named.split(":") if name]
        self._names_of_files: frozenset[str] = frozenset()

    @property
    def may_change(self) -> bool:
        """Whether a second reading can find anything new."""
        has_config = f"{self._command.environment_prefix}CONFIG" in self._environment or any(
            word == "--config" or word.startswith("--config=") for word in self._arguments
        )
        return bool(self._files) or has_config

    def first(self) -> Settings:
        """The settings that this process was started with. Reads files. Raises SettingsError."""
        with suppress(SettingsError):  # the manager has read them, as another user; `again` will complain
            self._names_of_files = frozenset(self._read_files())
        return self._load(self._environment)

    def again(self) -> Settings:
        """The settings as of now. Reads files. Raises SettingsError."""
        of_files = self._read_files()
        # A name that came from a file is the file's: what is no longer in it is no longer set.
        kept = {name: value for name, value in self._environment.items() if name not in self._names_of_files}
        return self._load(kept | of_files)

    def _load(self, environment: Mapping[str, str]) -> Settings:
        with_files = with_credentials(environment, self._model, self._command)
        return load_settings(self._model, self._command, self._arguments, with_files)

    def _read_files(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in self._files:
            if is_there(path):
                found |= read_environment_file(path)
        return found


class SettingsReload(Generic[Settings]):
    """The step of a reload that reads the settings again and takes over the few that may change."""

    def __init__(
        self,
        source: SettingsSource[Settings],
        started_with: Settings,
        take_over: Callable[[Settings], None],
        names: Collection[str],
    ) -> None:
        """`take_over` applies the settings called `names`; a change of any other waits for the next start."""
        self._source = source
        self._started_with = started_with
        self._take_over = take_over
        self._names = frozenset(names)

    async def step(self) -> None:
        """Never raises for a wrong setting: then all stay what they were, and the log says why."""
        try:
            settings = await asyncio.to_thread(self._source.again)
        except SettingsError as error:
            _log.error("settings stay what they were: %s", error)
            return
        self._take_over(settings)
        _log.info("settings were read again: %s", ", ".join(f"{n} {getattr(settings, n)}" for n in sorted(self._names)))
        waiting = changed_settings(self._started_with, settings) - self._names
        if waiting:
            _log.warning("changed, and in force after the next start: %s", ", ".join(sorted(waiting)))


def changed_settings(old: SettingsModel, new: SettingsModel) -> set[str]:
    """Names of the fields that differ."""
    return {name for name in type(old).model_fields if getattr(old, name) != getattr(new, name)}


def with_credentials(environment: Mapping[str, str], model: type[Settings], command: Command) -> dict[str, str]:
    """The environment with a variable for each credential that is there and that no variable names already.

    Raises SettingsError where one cannot see: a manager without private mounts of its own, as in some containers, hands
    over a folder that only root reads, and to go on without keys would be to stand open.
    """
    result = dict(environment)
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return result
    for flag in credential_flags(model):
        path = Path(folder, flag.removesuffix("-file"))
        if is_there(path):
            result.setdefault(command.environment_prefix + flag.upper().replace("-", "_"), str(path))
    return result


def is_there(path: Path) -> bool:
    """Whether it exists. Raises SettingsError where this process may not know."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise SettingsError(f"{path}: cannot be looked at ({error.strerror})") from None
    return True


def credential_flags(model: type[Settings]) -> list[str]:
    """Flags whose files may be credentials; the credential is called like the flag without `-file`."""
    return [option.flag for option in options_of(model) if option.is_file]


def read_environment_file(path: Path) -> dict[str, str]:
    """The plain part of systemd's EnvironmentFile=: `NAME=value` lines, quoted or not, and comments.

    Raises SettingsError for what cannot be read; a line that is none of these is left out, as systemd does.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_ENVIRONMENT_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > MAX_ENVIRONMENT_FILE_BYTES:
        raise SettingsError(f"{path}: is larger than {MAX_ENVIRONMENT_FILE_BYTES} bytes")
    found: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        match = _ASSIGNMENT.fullmatch(line.strip())
        if match is not None:
            found[match[1]] = _unquoted(match[2].strip())
    return found


def _unquoted(value: str) -> str:
    is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value
