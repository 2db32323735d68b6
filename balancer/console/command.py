"""What all commands for people on call have in common: settings in, a status and a sentence out, however it ends."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from balancer.access_files import AccessFileRefused
from balancer.console.errors import EXIT_INTERRUPTED, EXIT_WRONG_USAGE, ConsoleError
from shared.settings_sources import Command, SettingsError, SettingsModel, load_settings

Settings = TypeVar("Settings", bound=SettingsModel)


def run(
    command: Command,
    model: type[Settings],
    arguments: Sequence[str],
    act: Callable[[Settings], int],
    interrupted_status: int = EXIT_INTERRUPTED,
) -> int:
    """The exit status of `act`, or of what kept it from ending well. Ctrl-C is `interrupted_status`."""
    try:
        settings = load_settings(model, command, arguments, os.environ)
        status = act(settings)
        sys.stdout.flush()
        return status
    except (SettingsError, AccessFileRefused) as refused:
        say(command, f"{refused}\n{command.help_pointer}.")
        return EXIT_WRONG_USAGE
    except ConsoleError as error:
        say(command, str(error))
        return error.exit_status
    except KeyboardInterrupt:
        return interrupted_status
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_INTERRUPTED


def say(command: Command, text: str) -> None:
    """To standard error, with the command's name in front."""
    print(f"{command.program}: {text}", file=sys.stderr)
