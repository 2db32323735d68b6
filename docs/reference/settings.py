"""docs/settings.md out of the settings models: what `--help` says, with what a flag takes."""

import textwrap
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from agent.settings import COMMAND as AGENT
from agent.settings import AgentSettings
from balancer.settings import COMMAND as BALANCER
from balancer.settings import BalancerSettings
from docs.reference.markdown import code, table
from shared.settings_sources import Option, options_of

LINE_LENGTH = 120
HEAD = """# Every setting

Made from the settings models by `python -m docs.reference`; change those, not this page. `--help` says the same. The
commands for people on call have a page of their own: [command-line.md](command-line.md).

A setting is a flag, a variable or a line of the TOML file that `--config` names; the first of these that has it wins.
The flag `--drain-timeout` of the balancer is the variable `STEERSMAN_BALANCER_DRAIN_TIMEOUT` and the line
`drain-timeout = "30s"`; an agent's variables begin with `STEERSMAN_AGENT_`. The file may be named by the variable
`STEERSMAN_BALANCER_CONFIG` or `STEERSMAN_AGENT_CONFIG` instead. Under systemd, files may also come as credentials
([systemd.md](systemd.md)). An unknown flag or line ends the start with status 2 and a sentence that names it.

- A *duration* is whole milliseconds (`1500`), or a number with a unit: `500ms`, `10s`, `1.5m`, `2h`.
- A *switch* is `--flag` or `--no-flag`, in a variable or the file `true` or `false`.
- What may be given *several times* is a flag again and again, a comma between values in a variable, a list in the file.
- An IPv6 host stands in brackets: `[::1]:8060`.
"""


def settings_page() -> str:
    """The whole page."""
    lines = [HEAD]
    for command, model in ((BALANCER, BalancerSettings), (AGENT, AgentSettings)):
        rows = [_row(option, model.model_fields[option.field]) for option in options_of(model)]
        summary = textwrap.wrap(command.summary, width=LINE_LENGTH)
        lines += [f"## {command.program}", "", *summary, "", *table(["flag", "takes", "default", ""], rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(option: Option, info: FieldInfo) -> list[str]:
    flags = ", ".join(code(f"--{name}") for name in (option.flag, *option.other_flags))
    return [flags, _takes(option, info), _default(option, info), info.description or ""]


def _takes(option: Option, info: FieldInfo) -> str:
    if option.is_duration:
        return "duration"
    if option.is_bool:
        return "switch"
    kinds = [part for part in get_args(info.annotation) if part not in (type(None), Ellipsis)]
    if option.is_list:
        return f"{_kind(kinds[0], FieldInfo())}; several times"
    optional = get_origin(info.annotation) is not Literal and bool(kinds)
    return _kind(kinds[0] if optional else info.annotation, info)


def _kind(annotation: Any, info: FieldInfo) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(map(code, get_args(annotation)))
    if hasattr(annotation, "__metadata__"):  # Annotated[...] within a list
        annotation = get_args(annotation)[0]
    name = getattr(annotation, "__name__", "")
    words = {"str": "text", "Path": "a file", "int": "integer", "float": "number", "Address": "HOST:PORT"}
    return words.get(name, name) + _bounds(info)


def _bounds(info: FieldInfo) -> str:
    lowest = next((part.ge for part in info.metadata if isinstance(part, Ge)), None)
    highest = next((part.le for part in info.metadata if isinstance(part, Le)), None)
    if lowest is None:
        return ""
    return f" from {lowest:,}" if highest is None else f" {lowest:,} to {highest:,}"


def _default(option: Option, info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    default = info.default
    if default is None or default == ():
        return ""
    if option.is_duration:
        return code(f"{default:g}s" if default else "0")
    if isinstance(default, bool):
        return "on" if default else "off"
    return code(str(default))
