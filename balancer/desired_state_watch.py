"""Keeps the switchboard in step with the store, through every outage of the store, and is the way to change it.

What was adopted last keeps serving whatever the store does. A store that has lost states (it came back empty or from
a backup) gets the held one back: the higher revision wins.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from random import Random

from balancer.desired_state_store import DesiredStateStore, StoredState, StoreUnavailable
from shared.desired_state import AgentDesiredState, BalancerDesiredState

log = logging.getLogger(__name__)

SAY_EVERY_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0

SetDesiredState = Callable[[int, AgentDesiredState], None]


@dataclass(frozen=True, slots=True)
class Reading:
    """`is_stale`: the store did not answer; this is what was adopted last."""

    stored: StoredState
    is_stale: bool


class DesiredStateWatch:
    """`run` is one task for the life of the balancer; the rest is for the routes."""

    def __init__(self, store: DesiredStateStore, set_desired_state: SetDesiredState, randomness: Random) -> None:
        self._store = store
        self._set_desired_state = set_desired_state
        self._randomness = randomness
        self._current: StoredState | None = None
        self._problem: str | None = None
        self._said_at = float("-inf")

    @property
    def current(self) -> StoredState | None:
        """What this balancer serves by; None until the store answered for the first time."""
        return self._current

    @property
    def problem(self) -> str | None:
        """One sentence while the store cannot be used, else None. For logs and guarded routes: it names hosts."""
        return self._problem

    async def run(self) -> None:
        """Watch for ever. Cancelled, it closes its subscription."""
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            try:
                async with aclosing(self._store.wait_changes()) as changes:
                    async for _ in changes:
                        await self._catch_up()
                        pause_seconds = FIRST_PAUSE_SECONDS
            except StoreUnavailable as problem:
                self._complain(str(problem))
            # Several balancers lost the same Redis at the same moment: they should not come back as one.
            await asyncio.sleep(pause_seconds * self._randomness.uniform(0.5, 1.0))
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    # Questions and orders of the management routes.

    async def read(self) -> Reading:
        """What the store holds. While it is known to be away, what was adopted last, without asking it.

        Raises StoreUnavailable when there is neither.
        """
        if self._problem is not None and self._current is not None:
            return Reading(self._current, is_stale=True)
        try:
            return Reading(await self._store.load(), is_stale=False)
        except StoreUnavailable:
            if self._current is None:
                raise
            return Reading(self._current, is_stale=True)

    async def replace(self, state: BalancerDesiredState, expected_revision: int | None) -> StoredState:
        """Store and adopt `state`. Raises RevisionConflict and StoreUnavailable; neither changes anything."""
        if self._current is not None:
            # The new revision must be above the one held here, also when the store has just come back empty.
            await self._store.restore(self._current)
        stored = await self._store.replace(state, expected_revision)
        self._adopt(stored)
        return stored

    # How the held state follows the store.

    async def _catch_up(self) -> None:
        stored = await self._store.load()
        held = self._current
        if held is not None and stored.revision < held.revision:
            log.warning(
                "the state database lost revision %d and has %d; it gets the lost one back",
                held.revision,
                stored.revision,
            )
            stored = await self._store.restore(held)
        self._rejoice()
        self._adopt(stored)

    def _adopt(self, stored: StoredState) -> None:
        """Synchronous, so that a replacement and the watcher cannot overtake one another here."""
        held = self._current
        if held is not None and (stored.revision < held.revision or stored == held):
            return
        self._current = stored
        self._set_desired_state(stored.revision, stored.state.for_agents())

    def _complain(self, problem: str) -> None:
        """At once, then every SAY_EVERY_SECONDS as long as it lasts."""
        now = asyncio.get_running_loop().time()
        self._problem = problem
        if now - self._said_at < SAY_EVERY_SECONDS:
            return
        self._said_at = now
        if self._current is None:
            log.warning("waiting for the desired state: %s", problem)
        else:
            log.warning("%s; serving goes on with revision %d", problem, self._current.revision)

    def _rejoice(self) -> None:
        if self._problem is not None:
            log.info("the state database answers again")
        self._problem = None
        self._said_at = float("-inf")
