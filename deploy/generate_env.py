"""Writes the example environment files in deploy/env from the settings' models: `python -m deploy.generate_env`.

With `--check` it writes nothing and ends with status 1 if a file is not what it would write.
"""

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.settings import COMMAND as AGENT
from agent.settings import AgentSettings
from balancer.settings import COMMAND as BALANCER
from balancer.settings import BalancerSettings
from shared.settings_sources import Command, Option, SettingsModel, options_of

FOLDER: Final = Path(__file__).resolve().parent
COLUMNS: Final = 118

INSTANCE_FIELDS: Final = ("name", "slots", "threads", "metrics_addr")
"""What differs between the agents of one host."""

EXAMPLES: Final = {"management_addr": "127.0.0.1:8060", "slots": "4"}
"""Values of settings that have no default."""

DEVICES: Final = """\
# Which device this agent computes on. Without any of these it sees all of them, and a build for the CPU needs none.
# NVIDIA: a number or a UUID of `nvidia-smi -L`
#CUDA_VISIBLE_DEVICES=0
# AMD: a number of `rocm-smi`
#HIP_VISIBLE_DEVICES=0
# Vulkan: a number
#GGML_VK_VISIBLE_DEVICES=0
"""


@dataclass(frozen=True, slots=True)
class EnvFile:
    """One example. `unit`: whose `Environment=` lines come before it; `fields` None: all but `without`."""

    name: str
    title: str
    model: type[SettingsModel]
    command: Command
    unit: str
    fields: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    ending: str = ""


FILES: Final = (
    EnvFile(
        "balancer.env",
        "Settings of steersman-balancer.service.",
        BalancerSettings,
        BALANCER,
        "steersman-balancer.service",
    ),
    EnvFile(
        "agent.env",
        "Settings that all agents of this host share. What agents/NAME.env says of one of them wins.",
        AgentSettings,
        AGENT,
        "steersman-agent@.service",
        without=INSTANCE_FIELDS,
    ),
    EnvFile(
        "agent-instance.env",
        "Settings of one agent: as /etc/steersman/agents/NAME.env those of steersman-agent@NAME.service.",
        AgentSettings,
        AGENT,
        "steersman-agent@.service",
        fields=INSTANCE_FIELDS,
        ending=DEVICES,
    ),
)


def text_of(file: EnvFile) -> str:
    """The whole example."""
    head = (
        f"{file.title} Remove the # of a line to change the setting, then `systemctl restart` the unit; for a new log "
        "level `systemctl reload` is enough. Every user of the host may read this file: secrets belong into "
        "/etc/credstore (docs/systemd.md). Written by `python -m deploy.generate_env`."
    )
    parts = [_comment(head), *_settings(file)]
    return "\n".join([*parts, file.ending] if file.ending else parts)


def _settings(file: EnvFile) -> Iterator[str]:
    of_unit = unit_environment(FOLDER / "systemd" / file.unit)
    for option in options_of(file.model):
        is_wanted = option.field in file.fields if file.fields is not None else option.field not in file.without
        if not is_wanted:
            continue
        variable = file.command.environment_prefix + option.flag.upper().replace("-", "_")
        described = _described(option, of_unit.get(variable))
        value = of_unit.get(variable, default_text(file.model, option))
        line = f"{variable}={EXAMPLES.get(option.field, '') if option.required else '' if '%' in value else value}"
        yield _comment(described) + (line if option.required else f"#{line}") + "\n"


def _described(option: Option, of_unit: str | None) -> str:
    sentence = (option.help[:1].upper() + option.help[1:]).replace("%%", "%")
    if option.is_file:
        credential = option.flag.removesuffix("-file")
        sentence += f"; the unit takes it from the credential /etc/credstore/steersman.{credential} if that is there"
    if of_unit is not None:
        sentence += f"; the unit sets {of_unit.replace('%i', 'the name of the instance')}"
    return f"{sentence}."


def default_text(model: type[SettingsModel], option: Option) -> str:
    """A field's default as one would write it; empty for none."""
    value = model.model_fields[option.field].default
    if option.required or value is None:
        return ""
    if option.is_duration:
        return f"{value:g}s"
    if isinstance(value, bool):
        return str(value).lower()
    if option.is_list:
        return ",".join(str(one) for one in value)
    return str(value)


def unit_environment(unit: Path) -> dict[str, str]:
    """What the unit sets by itself, from its `Environment=` lines of our prefix."""
    lines = unit.read_text(encoding="utf-8").splitlines()
    given = [line.removeprefix("Environment=") for line in lines if line.startswith("Environment=STEERSMAN_")]
    return dict(one.split("=", 1) for one in given)


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, COLUMNS, break_long_words=False))


def main(arguments: list[str]) -> int:
    """0: written, or all in step. 1: `--check` found a file that is not."""
    stale = []
    for file in FILES:
        path, text = FOLDER / "env" / file.name, text_of(file)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(file.name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{'not in step' if '--check' in arguments else 'written'}: deploy/env/{name}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
