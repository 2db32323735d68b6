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

from pydantic import ValidationError

from balancer.console.command import run, say
from balancer.console.errors import EXIT_DONE, EXIT_NOT_WELL, Refused, Unreachable, WrongUsage
from balancer.console.fleet_snapshot import Fleet
from balancer.console.health import LOOK_AFTER, store_problem
from balancer.console.management_client import Answer, ManagementClient, management_client
from balancer.console.settings import STATE, StateSettings
from balancer.console.state_change import change_lines, pretty, read_state, what_serves
from balancer.console.state_editor import MAX_STATE_BYTES, EditedFile, decoded, edit, editor_of, read_bounded
from balancer.console.status import COLUMNS_OF_A_PIPE, FLEET_PATH, STATE_PATH, strange_fleet
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
    fleet: Fleet


class StateAsker:
    """All requests."""

    def __init__(self, settings: StateSettings) -> None:
        self._settings = settings
        self._address = str(settings.management_addr)

    def fetch(self) -> Stored:
        """What is stored. Raises ConsoleError."""
        answer, fleet = asyncio.run(self._ask_state_and_fleet())
        if answer.status == 503:
            raise Refused(f"{store_problem(fleet)}, so this balancer does not know yet what is stored. {LOOK_AFTER}")
        tag = _TAG.fullmatch(answer.headers.get("ETag", ""))
        if answer.status != 200 or tag is None:
            raise Unreachable(
                f"{self._address} answered {answer.status} where the desired state should be. "
                "Is it a management service?"
            )
        state = read_state(answer.body.decode("utf-8", "replace"), f"what {self._address} has stored")
        return Stored(int(tag[1]), state, "Warning" in answer.headers, fleet)

    def store(self, state: BalancerDesiredState, revision: int, again: str) -> None:
        """Over `revision` and no other. Raises Refused with what to do next; `again` is the command for another try."""
        headers = {"Content-Type": "application/json", "If-Match": f'"{revision}"'}
        answer, fleet = asyncio.run(self._store(pretty(state).encode(), headers))
        if answer.status != 204:
            raise Refused(_refusal(answer, fleet, revision, again))
        stored = answer.headers.get("ETag", "").strip('"')
        print(f"Revision {stored} is stored. `steersman top` shows the agents applying it.")

    async def _ask_state_and_fleet(self) -> tuple[Answer, Fleet]:
        async with management_client(self._settings) as client:
            return await client.ask("GET", STATE_PATH), await _fleet_of(client)

    async def _store(self, body: bytes, headers: Mapping[str, str]) -> tuple[Answer, Fleet]:
        async with management_client(self._settings) as client:
            return await client.ask("PUT", STATE_PATH, body, headers), await _fleet_of(client)


async def _fleet_of(client: ManagementClient) -> Fleet:
    try:
        return Fleet.model_validate(await client.document(FLEET_PATH))
    except ValidationError:
        raise strange_fleet(client.address) from None


def _get(asker: StateAsker) -> int:
    stored = asker.fetch()
    print(pretty(stored.state))
    say(STATE, f'revision {stored.revision} (ETag "{stored.revision}")')
    if stored.is_stale:
        say(STATE, f"{store_problem(stored.fleet)}: this is what is served by now, perhaps not what is stored")
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
        raise Refused(f"{store_problem(stored.fleet)}, so nothing could be stored. {LOOK_AFTER}")
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
    serves = what_serves(stored.fleet, stored.revision)
    print("\n".join(change_lines(stored.state, state, stored.revision, serves, width)), flush=True)


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


def _refusal(answer: Answer, fleet: Fleet, revision: int, again: str) -> str:
    if answer.status == 412:
        now = answer.headers.get("ETag", "").strip('"')
        return (
            f"somebody else stored revision {now} meanwhile; you saw revision {revision}, so nothing was changed. "
            f"Run `{again}` to see what would change now."
        )
    if answer.status == 503:
        why = fleet.state_database_problem or answer.text or "the state database does not answer"
        return f"{why}; nothing was changed, and what is served stays as it was. {LOOK_AFTER}"
    if answer.status == 413:
        return f"the balancer takes no document of this size: {answer.text} (--max-request-bytes of the balancer)"
    return f"the balancer refused it with {answer.status}, so nothing was changed: {answer.text or 'without a reason'}"


def _agrees(question: str, *, is_default: bool) -> bool:
    try:
        answer = input(f"{question} [{'Y/n' if is_default else 'y/N'}] ").strip().lower()
    except EOFError:
        return False
    return is_default if not answer else answer in ("y", "yes")


def _read_stdin(_: Path) -> str:
    return decoded(sys.stdin.buffer.read(MAX_STATE_BYTES + 1), "standard input")
