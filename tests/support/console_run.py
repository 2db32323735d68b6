"""A command for people on call, run in a thread beside the balancer under test, with what it printed."""

import asyncio
import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from shared import command_line


@dataclass(frozen=True, slots=True)
class Ran:
    """`out` and `err` as text."""

    status: int
    out: str
    err: str


def run_now(*words: str, answers: str = "") -> Ran:
    """`answers`: what a person types. Standard input is a terminal for the command when there are some."""
    out, err, typed = io.StringIO(), io.StringIO(), _Terminal(answers)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _standard_input(typed):
        status = command_line.main(list(words))
    return Ran(status, out.getvalue(), err.getvalue())


async def run(*words: str, answers: str = "") -> Ran:
    """`run_now` in a thread."""
    return await asyncio.to_thread(run_now, *words, answers=answers)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return bool(self.getvalue())


@contextlib.contextmanager
def _standard_input(typed: io.StringIO) -> Iterator[None]:
    before, sys.stdin = sys.stdin, typed
    try:
        yield
    finally:
        sys.stdin = before
