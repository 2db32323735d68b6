"""`steersman state get|set|edit`: the desired state, replaced only as somebody has seen it.

The terminal and the editor block for minutes, so each request is a loop and a connection of its own, in between.
"""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from balancer.console.command import run, say
from balancer.console.errors import EXIT_DONE, EXIT_NOT_WELL, Refused, Unreachable, WrongUsage
from balancer.console.management_client import Answer, management_client
from balancer.console.settings import STATE, StateSettings
from balancer.console.state_change import change_lines, pretty, read_state
from balancer.console.state_editor import MAX_STATE_BYTES, EditedFile, decoded, edit, editor_of, read_bounded
from balancer.console.status import COLUMNS_OF_A_PIPE, STATE_PATH
from shared.desired_state import BalancerDesiredState

_TAG: Final = re.compile(r'"(\d{1,19})"')
STDIN: Final = Path("-")


def main(arguments: list[str]) -> int:
    """0: printed, stored, or nothing to change; 1: not stored; 2: wrong usage or no desired state; 3: no balancer."""
    return run(STATE, StateSettings, arguments, _act)


def _act(settings: StateSettings) -> int:
    asker = StateAsker(settings)
    if settings.action == "get":
        return _get(asker)
    return _edit(asker, settings) if settings.action == "edit" else _set(asker, settings)


@dataclass(frozen=True, slots=True)
class Stored:
    """`is_stale`: the store is away, and this is what is served by."""

    revision: int
    state: BalancerDesiredState
    is_stale: bool


class StateAsker:
    """Both requests."""

    def __init__(self, settings: StateSettings) -> None:
        self._settings = settings
        self._address = str(settings.management_addr)

    def fetch(self) -> Stored:
        """What is stored. Raises ConsoleError."""
        answer = asyncio.run(self._ask("GET"))
        if answer.status == 503:
            raise Refused(_store_is_away(answer))
        tag = _TAG.fullmatch(answer.headers.get("ETag", ""))
        if answer.status != 200 or tag is None:
            raise Unreachable(
                f"{self._address} answered {answer.status} where the desired state should be. "
                "Is it a management service?"
            )
        state = read_state(answer.body.decode("utf-8", "replace"), f"what {self._address} has stored")
        return Stored(int(tag[1]), state, "Warning" in answer.headers)

    def store(self, state: BalancerDesiredState, revision: int, again: str) -> None:
        """Over `revision` and no other. Raises Refused with what to do next; `again` is the command for another try."""
        headers = {"Content-Type": "application/json", "If-Match": f'"{revision}"'}
        answer = asyncio.run(self._ask("PUT", pretty(state).encode(), headers))
        if answer.status != 204:
            raise Refused(_refusal(answer, revision, again))
        stored = answer.headers.get("ETag", "").strip('"')
        print(f"Revision {stored} is stored. `steersman top` shows the agents applying it.")

    async def _ask(self, method: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        async with management_client(self._settings) as client:
            return await client.ask(method, STATE_PATH, body, headers)


def _get(asker: StateAsker) -> int:
    stored = asker.fetch()
    print(pretty(stored.state))
    say(STATE, f'revision {stored.revision} (ETag "{stored.revision}")')
    if stored.is_stale:
        say(STATE, "the state database does not answer: this is what is served by now, perhaps not what is stored")
    return EXIT_DONE


def _set(asker: StateAsker, settings: StateSettings) -> int:
    assert settings.file is not None
    is_stdin = settings.file == STDIN
    name = "standard input" if is_stdin else str(settings.file)
    text = (_read_stdin if is_stdin else read_bounded)(settings.file)
    state = read_state(text, name)
    stored = asker.fetch()
    if state == stored.state:
        print(f"Nothing to change: revision {stored.revision} says the same.")
        return EXIT_DONE
    _show_changes(stored, state)
    if not settings.yes and (is_stdin or not sys.stdin.isatty()):
        raise WrongUsage("nothing was stored, since nobody can be asked here: --yes stores without asking")
    if not settings.yes and not _agrees("Store it?", is_default=False):
        print("Nothing was changed.")
        return EXIT_NOT_WELL
    asker.store(state, stored.revision, f"steersman state set {settings.file}")
    return EXIT_DONE


def _edit(asker: StateAsker, settings: StateSettings) -> int:
    stored = asker.fetch()
    if stored.is_stale:
        raise Refused("the state database does not answer, so nothing could be stored: look after it first, then edit")
    editor = editor_of(os.environ)
    original = pretty(stored.state) + "\n"
    file = EditedFile(original)
    is_over = False
    try:
        state = _edited(editor, file, original)
        if state is None or state == stored.state:
            is_over = True
            print("Nothing was changed.")
            return EXIT_DONE
        _show_changes(stored, state)
        if not settings.yes and not _agrees("Store it?", is_default=False):
            print("Nothing was changed.")
            return EXIT_NOT_WELL
        asker.store(state, stored.revision, f"steersman state set {file.path}")
        is_over = True
        return EXIT_DONE
    finally:
        if is_over or file.holds(original):
            file.remove()
        else:
            say(STATE, f"what you wrote is in {file.path}")


def _show_changes(stored: Stored, state: BalancerDesiredState) -> None:
    width = shutil.get_terminal_size((COLUMNS_OF_A_PIPE, 24)).columns
    print("\n".join(change_lines(stored.state, state, stored.revision, width)), flush=True)


def _edited(editor: list[str], file: EditedFile, original: str) -> BalancerDesiredState | None:
    """Until it is a desired state; None when nothing was written. Raises ConsoleError."""
    while True:
        edit(editor, file.path)
        text = file.read()
        if text == original:
            return None
        try:
            return read_state(text, "what you wrote")
        except WrongUsage as fault:
            print(fault, file=sys.stderr, flush=True)
            if not sys.stdin.isatty() or not _agrees("Edit it again?", is_default=True):
                raise


def _refusal(answer: Answer, revision: int, again: str) -> str:
    if answer.status == 412:
        now = answer.headers.get("ETag", "").strip('"')
        return (
            f"somebody else stored revision {now} meanwhile; you saw revision {revision}, so nothing was changed. "
            f"Run `{again}` to see what would change now."
        )
    if answer.status == 503:
        return _store_is_away(answer)
    if answer.status == 413:
        return f"the balancer takes no document of this size: {answer.text} (--max-request-bytes of the balancer)"
    return f"the balancer refused it with {answer.status}, so nothing was changed: {answer.text or 'without a reason'}"


def _store_is_away(answer: Answer) -> str:
    why = answer.text or "the state database does not answer"
    return f"{why}. Requests are served as before; look after Redis or the disk of the state file, and try again."


def _agrees(question: str, *, is_default: bool) -> bool:
    try:
        answer = input(f"{question} [{'Y/n' if is_default else 'y/N'}] ").strip().lower()
    except EOFError:
        return False
    return is_default if not answer else answer in ("y", "yes")


def _read_stdin(_: Path) -> str:
    return decoded(sys.stdin.buffer.read(MAX_STATE_BYTES + 1), "standard input")
