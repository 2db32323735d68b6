"""The command `steersman`: hands the rest of the line to one subcommand.

It looks the subcommand up by name at run time and imports nothing of ours before that, so that
`steersman balancer` runs on a host that has no llama.cpp and the two sides stay strangers to each other.
"""

import importlib
import sys
from collections.abc import Callable
from typing import Final, cast

Main = Callable[[list[str]], int]

_SUBCOMMANDS: Final[dict[str, tuple[str, str]]] = {
    "balancer": ("balancer.cli:main", "face the clients, keep the desired state, hand work to agents"),
    "agent": ("agent.cli:main", "load a model with llama.cpp and generate for a balancer"),
    "demo": ("agent.demo:main", "a balancer, an agent and a small model on this machine, in one go"),
}

# What is missing when only the balancer's half is installed; the top-level name of each package of the extra.
_PACKAGES_OF_THE_AGENT_EXTRA: Final = frozenset({"llama_cpp", "numpy", "llguidance", "gguf"})


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand with the arguments after its name; returns the exit status of the process.

    `--help` prints the list and returns 0; no subcommand or an unknown one prints it to stderr and returns 2.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] in (["-h"], ["--help"], ["help"]):
        print(_usage())
        return 0
    if not words:
        print(_usage(), file=sys.stderr)
        return 2
    name, rest = words[0], words[1:]
    if name not in _SUBCOMMANDS:
        print(f"steersman: there is no subcommand {name!r}.\n\n{_usage()}", file=sys.stderr)
        return 2
    try:
        run = load_main(_SUBCOMMANDS[name][0])
    except ModuleNotFoundError as error:
        if not is_missing_agent_extra(error):
            raise
        print(missing_extra_sentence(name, error), file=sys.stderr)
        return 1
    return run(rest)


def load_main(target: str) -> Main:
    """Import `module:function` and return the function; raises what the import raises."""
    module_name, _, function_name = target.partition(":")
    return cast(Main, getattr(importlib.import_module(module_name), function_name))


def is_missing_agent_extra(error: ModuleNotFoundError) -> bool:
    """Whether the import failed for want of the `agent` extra, rather than for a mistake of ours."""
    return (error.name or "").partition(".")[0] in _PACKAGES_OF_THE_AGENT_EXTRA


def missing_extra_sentence(subcommand: str, error: ModuleNotFoundError) -> str:
    """One plain sentence for a host where only the balancer was installed."""
    return (
        f"steersman {subcommand}: the package {error.name!r} is not installed; "
        "install the agent's half with: pip install 'steersman[agent]'"
    )


def _usage() -> str:
    lines = ["usage: steersman SUBCOMMAND [flags]", ""]
    lines += [f"  {name:<10}{summary}" for name, (_, summary) in _SUBCOMMANDS.items()]
    lines += ["", "`steersman SUBCOMMAND --help` lists the flags of one."]
    return "\n".join(lines)
