"""Where settings come from: flags over environment over a TOML file, one mechanism for every command.

A command describes its settings as one pydantic model. A field `drain_timeout_seconds` of type `Duration` is
the flag `--drain-timeout`, the variable `<PREFIX>DRAIN_TIMEOUT` and the line `drain-timeout = "60s"` of the
file that `--config` names. A list may be given several times as a flag, and with commas in a variable.
A field marked `Positional` is a word of the line instead and comes from nowhere else.
"""

import argparse
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from shared.nearest_word import did_you_mean
from shared.settings_faults import faults_sentence, unknown_words_sentence

MAX_CONFIG_BYTES = 1 << 20
MAX_DURATION_SECONDS = 10_000_000.0
HELP_COLUMNS = 78

_UNITS_SECONDS = {"": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d{1,10}(?:\.\d{1,6})?)(ms|s|m|h|)")


class SettingsError(Exception):
    """A setting is missing, unknown or wrong; `str()` is one plain sentence that names where it was given."""


class SettingsModel(BaseModel):
    """Base of every command's settings: strings are converted to their field's type, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AlsoSpelled(NamedTuple):
    """Put into a field's `Annotated[...]`: a second spelling of its flag, without the dashes in front."""

    flag: str


class Spelled(NamedTuple):
    """Put into a field's `Annotated[...]`: its flag, where the field cannot have that name."""

    flag: str


class Positional(NamedTuple):
    """Put into a field's `Annotated[...]`: no flag, but a word of the command line; what `--help` calls it."""

    metavar: str


class Address(NamedTuple):
    """A TCP address. An IPv6 host stands without its brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_duration(value: object) -> float:
    """Seconds of a duration: a bare whole number is milliseconds, else `500ms`, `10s`, `1.5m`, `2h`.

    Raises ValueError with a sentence.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or (not found[2] and "." in found[1]):
        raise ValueError("must be whole milliseconds such as 1500, or a number with a unit such as 10s or 500ms")
    seconds = float(found[1]) * _UNITS_SECONDS[found[2]]
    if seconds > MAX_DURATION_SECONDS:
        raise ValueError("is longer than any sensible wait")
    return seconds


def parse_address(value: object) -> Address:
    """`HOST:PORT`, `[::1]:8060`. Raises ValueError with a sentence."""
    if isinstance(value, Address):
        return value
    scheme, has_scheme, _ = value.strip().partition("://") if isinstance(value, str) else ("", "", "")
    if has_scheme and scheme.isascii() and scheme.isalpha():
        raise ValueError(f"must be HOST:PORT alone: leave out {scheme}://")
    host, colon, port = value.strip().rpartition(":") if isinstance(value, str) else ("", "", "")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("must be HOST:PORT; an IPv6 host stands in brackets")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError("must be HOST:PORT with a port of 0 to 65535")
    return Address(host, int(port))


def _default_passes(value: object) -> object:
    return value if isinstance(value, float) else parse_duration(value)


Duration = Annotated[float, BeforeValidator(_default_passes)]
"""Seconds as a float; given as `parse_duration` says."""

HostPort = Annotated[Address, BeforeValidator(parse_address)]


@dataclass(frozen=True, slots=True)
class Command:
    """What a command is called and where its settings come from. `environment_prefix`: `STEERSMAN_AGENT_`.

    `lesson`: what `--help` ends with, line by line: examples, exit statuses.
    """

    program: str
    summary: str
    environment_prefix: str
    lesson: tuple[str, ...] = ()

    @property
    def help_pointer(self) -> str:
        """Where to look after a mistake."""
        return f"`{self.program} --help` lists the flags{' and shows examples' if self.example else ''}"

    @property
    def example(self) -> str | None:
        """The first of the lesson's."""
        return next((line.strip() for line in self.lesson if line.startswith(f"  {self.program} ")), None)


Settings = TypeVar("Settings", bound=SettingsModel)


def load_settings(
    model: type[Settings], command: Command, arguments: Sequence[str], environment: Mapping[str, str]
) -> Settings:
    """The settings out of all three sources. Raises SettingsError; `--help` prints and raises SystemExit(0).

    Variables under the prefix that name no setting are ignored: Kubernetes sets some for a service of that
    name.
    """
    options = options_of(model)
    # Intermixed: a word may stand behind a flag, and one that may be left out too.
    found, unknown = _parser(command, options).parse_known_intermixed_args(list(arguments))
    if unknown:
        raise SettingsError(unknown_words_sentence(unknown, _spellings(options)))
    given = vars(found)
    origins: dict[str, str] = {}
    values: dict[str, Any] = {}
    config = given.pop("config", None) or environment.get(f"{command.environment_prefix}CONFIG")
    if config:
        _take_file(Path(config), options, values, origins)
    for option in options:
        variable = command.environment_prefix + option.flag.upper().replace("-", "_")
        if variable in environment and not option.is_positional:
            text = environment[variable]
            values[option.field] = [part for part in text.split(",") if part] if option.is_list else text
            origins[option.field] = variable
        if given.get(option.field) is not None:
            values[option.field] = given[option.field]
            origins[option.field] = option.positional or f"--{option.flag}"
    try:
        return model.model_validate(values)
    except ValidationError as error:
        names = {option.field: option.positional or f"--{option.flag}" for option in options}
        raise SettingsError(faults_sentence(error, names, origins, command.example)) from None


def options_of(model: type[SettingsModel]) -> list["Option"]:
    """One for each setting, in the order of the model: for parsers, completions and references."""
    return [Option.of(name, info) for name, info in model.model_fields.items()]


@dataclass(frozen=True, slots=True)
class Option:
    """How a setting is spelled outside. `flag`: without the dashes; the same in the file, and in the variable in
    capitals with underscores. `help`: a sentence, with `%` doubled for argparse."""

    field: str
    flag: str
    other_flags: tuple[str, ...]
    is_list: bool
    is_bool: bool
    is_duration: bool
    required: bool
    help: str
    is_file: bool = False
    choices: tuple[str, ...] = ()
    positional: str | None = None

    @property
    def is_positional(self) -> bool:
        """Whether it is a word of the line, `positional` in `--help`, and no flag."""
        return self.positional is not None

    @classmethod
    def of(cls, name: str, info: FieldInfo) -> "Option":
        """Of a field of a settings model."""
        is_duration = any(isinstance(part, BeforeValidator) and part.func is _default_passes for part in info.metadata)
        spelled = next((part.flag for part in info.metadata if isinstance(part, Spelled)), None)
        flag = spelled or (name.removesuffix("_seconds") if is_duration else name).replace("_", "-")
        default = f"{info.default:g}s" if is_duration and info.default else info.default
        shown = "" if info.is_required() or default in (None, (), []) else f" (default {default})"
        return cls(
            field=name,
            flag=flag,
            other_flags=tuple(part.flag for part in info.metadata if isinstance(part, AlsoSpelled)),
            is_list=get_origin(info.annotation) in (list, tuple) and bool(get_args(info.annotation)),
            is_bool=info.annotation is bool,
            is_duration=is_duration,
            required=info.is_required(),
            help=((info.description or "") + shown).replace("%", "%%"),
            is_file=Path in (info.annotation, *get_args(info.annotation)),
            choices=get_args(info.annotation) if get_origin(info.annotation) is Literal else (),
            positional=next((part.metavar for part in info.metadata if isinstance(part, Positional)), None),
        )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise SettingsError(message)


def _parser(command: Command, options: Sequence[Option]) -> argparse.ArgumentParser:
    sources = f"Each flag may be a variable {command.environment_prefix}<FLAG> or a line of the --config file."
    parser = _Parser(
        prog=command.program,
        description=textwrap.fill(command.summary, HELP_COLUMNS),
        epilog="\n".join([textwrap.fill(sources, HELP_COLUMNS), *(("", *command.lesson) if command.lesson else ())]),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", help="a TOML file with any of these settings")
    for option in options:
        names = [f"--{flag}" for flag in (option.flag, *option.other_flags)]
        if option.is_positional:
            few = None if option.required else "?"
            parser.add_argument(option.field, nargs=few, metavar=option.positional, help=option.help)
        elif option.is_bool:
            parser.add_argument(
                *names,
                dest=option.field,
                action=argparse.BooleanOptionalAction,
                default=None,
                help=option.help,
            )
        elif option.is_list:
            parser.add_argument(*names, dest=option.field, action="append", metavar="VALUE", help=option.help)
        else:
            parser.add_argument(*names, dest=option.field, metavar="VALUE", help=option.help)
    return parser


def _take_file(path: Path, options: Sequence[Option], values: dict[str, Any], origins: dict[str, str]) -> None:
    by_name = {option.flag: option for option in options if not option.is_positional}
    for name, value in _read_file(path).items():
        option = by_name.get(name.replace("_", "-"))
        if option is None:
            hint = did_you_mean(name.replace("_", "-"), by_name)
            raise SettingsError(f"{path}: there is no setting {name!r}{hint}")
        if option.is_duration and isinstance(value, float):
            # A bare number is milliseconds everywhere; only defaults, which are ours, are floats and seconds.
            raise SettingsError(f'{path}: {name}: must be whole milliseconds such as 1500, or text such as "1.5s"')
        values[option.field] = value
        origins[option.field] = f"{path}: {name}"


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > MAX_CONFIG_BYTES:
        raise SettingsError(f"{path}: is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML ({error})") from None


def _spellings(options: Sequence[Option]) -> Iterator[str]:
    """All flags that a command takes, but for the `--no-` of some."""
    yield from ("--help", "--config")
    for option in options:
        if not option.is_positional:
            yield from (f"--{flag}" for flag in (option.flag, *option.other_flags))
