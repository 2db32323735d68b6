"""Where the desired state is kept: the port, what goes wrong with it, and its in-memory twin.

The rules, the same for memory, file and Redis (`tests/integration/test_desired_state_store_contract.py`):
every replacement has a revision, one higher than the last; a conditional one needs the revision it names; whoever
waits for changes is told at once that it now listens, so that a `load` after that misses nothing.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from shared.desired_state import DEFAULT_DESIRED_STATE, BalancerDesiredState

FORMAT_VERSION = "1"
"""Of stored documents; Paddler's files say the same."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """A desired state and its place in the row of replacements; revision 0 is the default, never stored."""

    revision: int
    state: BalancerDesiredState


NEVER_STORED = StoredState(0, DEFAULT_DESIRED_STATE)


class StoreRefused(Exception):
    """The store cannot be used as configured; the balancer does not start. The message is one sentence that says
    what to change."""


class StoreUnavailable(Exception):
    """The store does not answer, or holds what this version cannot read. The message is one sentence for logs; nothing
    was changed as far as this side knows. `for_clients` says it without naming hosts or paths."""

    def __init__(self, message: str, for_clients: str = "the state database does not answer") -> None:
        super().__init__(message)
        self.for_clients = for_clients


class RevisionConflict(Exception):
    """Another replacement was faster than the one that named its revision."""

    def __init__(self, current_revision: int) -> None:
        super().__init__(f"the desired state is at revision {current_revision}")
        self.current_revision = current_revision


class DesiredStateStore(Protocol):
    """Every wait is bounded, except `wait_changes`."""

    async def load(self) -> StoredState:
        """What is stored now; NEVER_STORED when nothing is. Raises StoreUnavailable."""
        ...

    async def replace(self, state: BalancerDesiredState, expected_revision: int | None) -> StoredState:
        """Store `state` under the next revision. With `expected_revision` only if that is the stored one.

        Raises RevisionConflict and StoreUnavailable; neither changes anything.
        """
        ...

    async def restore(self, held: StoredState) -> StoredState:
        """Put back a state that the store has lost: stored if its revision is higher than what is there.

        Returns what is stored afterwards. Raises StoreUnavailable.
        """
        ...

    def wait_changes(self) -> AsyncGenerator[int, None]:
        """Yields once as soon as it listens, then after each change (some may be merged into one): the revision,
        -1 where it is not known. Raises StoreUnavailable when it no longer listens. Ends only by being closed."""
        ...

    async def aclose(self) -> None:
        """Give back connections and locks."""
        ...


def replacement(current: StoredState, state: BalancerDesiredState, expected_revision: int | None) -> StoredState:
    """The state that follows `current`. Raises RevisionConflict."""
    if expected_revision is not None and expected_revision != current.revision:
        raise RevisionConflict(current.revision)
    return StoredState(current.revision + 1, state)


class RevisionSignal:
    """Tells any number of listeners of one event loop that a revision was stored; a slow one sees the newest."""

    def __init__(self) -> None:
        self._announcements = 0
        self._revision = -1
        self._next = asyncio.Event()

    def announce(self, revision: int) -> None:
        """Synchronous; from another thread through `call_soon_threadsafe`."""
        self._announcements += 1
        self._revision = revision
        woken, self._next = self._next, asyncio.Event()
        woken.set()

    async def listen(self) -> AsyncGenerator[int, None]:
        """The iterator that `DesiredStateStore.wait_changes` promises."""
        seen = self._announcements
        yield self._revision
        while True:
            if seen == self._announcements:
                await self._next.wait()
            seen = self._announcements
            yield self._revision


class InMemoryDesiredStateStore:
    """`memory://`: lost when the process ends."""

    def __init__(self) -> None:
        self._stored = NEVER_STORED
        self._changed = RevisionSignal()

    async def load(self) -> StoredState:
        return self._stored

    async def replace(self, state: BalancerDesiredState, expected_revision: int | None) -> StoredState:
        self._stored = replacement(self._stored, state, expected_revision)
        self._changed.announce(self._stored.revision)
        return self._stored

    async def restore(self, held: StoredState) -> StoredState:
        if held.revision > self._stored.revision:
            self._stored = held
            self._changed.announce(held.revision)
        return self._stored

    def wait_changes(self) -> AsyncGenerator[int, None]:
        return self._changed.listen()

    async def aclose(self) -> None:
        pass
