"""The flags that each subcommand of `steersman` takes, from its settings."""

from functools import cache
from typing import cast

from shared.command_line import SUBCOMMANDS, load_main
from shared.settings_sources import SettingsModel, options_of

EVERYWHERE = frozenset({"--help", "--config"})


@cache
def flags_of(subcommand: str) -> frozenset[str]:
    """All of them; none for a subcommand that does not exist."""
    entry = SUBCOMMANDS.get(subcommand)
    if entry is None:
        return frozenset()
    names = {*EVERYWHERE, *(flag for flag, _ in entry.flags)}
    if entry.settings:
        # `load_main` takes any `module:name`.
        for option in options_of(cast(type[SettingsModel], load_main(entry.settings))):
            names |= {f"--{flag}" for flag in (option.flag, *option.other_flags)}
            names |= {f"--no-{option.flag}"} if option.is_bool else set()
    return frozenset(names)


@cache
def every_flag() -> frozenset[str]:
    """Of all subcommands together, and of the command itself."""
    return frozenset({"--version"}).union(*(flags_of(one) for one in SUBCOMMANDS))
