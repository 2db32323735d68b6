"""The command `steersman`: hands the rest of the line to one subcommand.

It looks the subcommand up by name at run time and imports nothing of ours before that, so that
`steersman balancer` runs on a host that has no llama.cpp and the two sides stay strangers to each other.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from shared.nearest_word import did_you_mean

Main = Callable[[list[str]], int]


class Entry(NamedTuple):
    """Where a subcommand's function and its settings are, `module:name`. `flags`: of one that has no settings."""

    target: str
    summary: str
    settings: str = ""
    flags: tuple[tuple[str, str], ...] = ()


_CONSOLE: Final = "balancer.console"
SUBCOMMANDS: Final[dict[str, Entry]] = {
    "balancer": Entry(
        "balancer.cli:main",
        "face the clients, keep the desired state, hand work to agents",
        "balancer.settings:BalancerSettings",
    ),
    "agent": Entry(
        "agent.cli:main", "load a model with llama.cpp and generate for a balancer", "agent.settings:AgentSettings"
    ),
    "demo": Entry(
        "agent.demo:main",
        "a balancer, an agent and a small model on this machine, in one go",
        flags=(("--once", "leave after the two answers"),),
    ),
    "status": Entry(
        f"{_CONSOLE}.status:main",
        "the fleet at a glance: is it healthy, what is wrong, what to do",
        f"{_CONSOLE}.settings:StatusSettings",
    ),
    "top": Entry(f"{_CONSOLE}.top:main", "the fleet live", f"{_CONSOLE}.settings:TopSettings"),
    "state": Entry(f"{_CONSOLE}.state:main", "read or replace the desired state", f"{_CONSOLE}.settings:StateSettings"),
    "bench": Entry(
        f"{_CONSOLE}.bench:main", "a bounded load on an inference address", f"{_CONSOLE}.settings:BenchSettings"
    ),
    "completion": Entry(
        "shared.command_line:print_completion",
        "print a completion script for bash, zsh or fish",
        "shared.shell_completion:CompletionSettings",
    ),
}

# What is missing when only the balancer's half is installed; the top-level name of each package of the extra.
_PACKAGES_OF_THE_AGENT_EXTRA: Final = frozenset({"llama_cpp", "numpy", "llguidance", "gguf"})


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand with the arguments after its name; returns the exit status of the process.

    `--help` prints the list and returns 0, `--version` the version; no subcommand or an unknown one prints the list to
    stderr and returns 2.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] in (["-h"], ["--help"], ["help"]):
        print(_usage())
        return 0
    if words[:1] in (["-V"], ["--version"], ["version"]):
        print(_version())
        return 0
    if not words:
        print(_usage(), file=sys.stderr)
        return 2
    name, rest = words[0], words[1:]
    if name not in SUBCOMMANDS:
        hint = did_you_mean(name, SUBCOMMANDS) or "."
        print(f"steersman: there is no subcommand {name!r}{hint}\n\n{_usage()}", file=sys.stderr)
        return 2
    try:
        run = load_main(SUBCOMMANDS[name].target)
    except ModuleNotFoundError as error:
        if not is_missing_agent_extra(error):
            raise
        print(missing_extra_sentence(name, error), file=sys.stderr)
        return 1
    return run(rest)


def load_main(target: str) -> Main:
    """Import `module:function` and return the function; raises what the import raises."""
    return cast(Main, _load(target))


def _load(target: str) -> Any:
    module_name, _, name = target.partition(":")
    return getattr(importlib.import_module(module_name), name)


def is_missing_agent_extra(error: ModuleNotFoundError) -> bool:
    """Whether the import failed for want of the `agent` extra, rather than for a mistake of ours."""
    return (error.name or "").partition(".")[0] in _PACKAGES_OF_THE_AGENT_EXTRA


def missing_extra_sentence(subcommand: str, error: ModuleNotFoundError) -> str:
    """One plain sentence for a host where only the balancer was installed."""
    return (
        f"steersman {subcommand}: the package {error.name!r} is not installed; "
        "install the agent's half with: pip install 'steersman[agent]'"
    )


def print_completion(arguments: list[str]) -> int:
    """`steersman completion SHELL`. 0: printed; 2: no such shell."""
    from shared.settings_sources import SettingsError, load_settings
    from shared.shell_completion import COMPLETION, HELP, CompletionSettings, Flag, Subcommand, described, script

    try:
        shell = load_settings(CompletionSettings, COMPLETION, arguments, os.environ).shell
    except SettingsError as error:
        print(f"{COMPLETION.program}: {error} (bash, zsh or fish; {COMPLETION.help_pointer})", file=sys.stderr)
        return 2
    found = []
    for name, entry in SUBCOMMANDS.items():
        if entry.settings:
            found.append(described(name, entry.summary, _load(entry.settings)))
        else:
            flags = [Flag(spelling, text, "nothing") for spelling, text in entry.flags]
            found.append(Subcommand(name, entry.summary, (HELP, *flags)))
    print(script(shell, found), end="")
    return 0


def _version() -> str:
    from shared.version import PROTOCOL_VERSION, software_version

    return f"steersman {software_version()} (link protocol {PROTOCOL_VERSION})"


def _usage() -> str:
    lines = ["usage: steersman SUBCOMMAND [flags]", ""]
    lines += [f"  {name:<12}{entry.summary}" for name, entry in SUBCOMMANDS.items()]
    lines += ["", "`steersman SUBCOMMAND --help` lists the flags of one; `steersman --version` says which this is."]
    return "\n".join(lines)
