"""How a command for people on call ends when it cannot do what it was asked: an exit status and plain sentences."""

from typing import Final

EXIT_DONE: Final = 0
EXIT_NOT_WELL: Final = 1
EXIT_WRONG_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_INTERRUPTED: Final = 130


class ConsoleError(Exception):
    """What went wrong and what to do next; `str()` is for the person at the terminal."""

    exit_status: int = EXIT_NOT_WELL


class Refused(ConsoleError):
    """The balancer answered, and said no."""


class WrongUsage(ConsoleError):
    """The line itself, a file it names or the token is wrong."""

    exit_status = EXIT_WRONG_USAGE


class Unreachable(ConsoleError):
    """Nobody answers, or somebody who is no balancer."""

    exit_status = EXIT_UNREACHABLE
