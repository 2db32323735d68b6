"""The watcher against a store that fails when told to: what is adopted, when, and what outages leave alone."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from balancer.desired_state_store import (
    NEVER_STORED,
    InMemoryDesiredStateStore,
    RevisionConflict,
    StoredState,
    StoreUnavailable,
)
from balancer.desired_state_watch import DesiredStateWatch
from shared.desired_state import DEFAULT_DESIRED_STATE, AgentDesiredState, BalancerDesiredState, LocalToAgentSource


def state_with(path: str) -> BalancerDesiredState:
    return DEFAULT_DESIRED_STATE.model_copy(update={"model": LocalToAgentSource(LocalToAgent=path)})


class NoPause(Random):
    """Retries follow one another at once."""

    def uniform(self, a: float, b: float) -> float:
        return 0.0


class FailingStore:
    """The in-memory store, until `problem` is set; then every call fails, and so does whoever listens."""

    def __init__(self) -> None:
        self.inside = InMemoryDesiredStateStore()
        self.problem: str | None = None
        self.attempts = 0
        self.closed_listeners = 0
        self._broken = asyncio.Event()

    def fail(self, problem: str) -> None:
        self.problem = problem
        self._broken.set()

    def recover(self) -> None:
        self.problem = None
        self._broken = asyncio.Event()

    def forget(self) -> None:
        """It comes back empty."""
        self.inside = InMemoryDesiredStateStore()

    def _check(self) -> None:
        self.attempts += 1
        if self.problem is not None:
            raise StoreUnavailable(self.problem)

    async def load(self) -> StoredState:
        self._check()
        return await self.inside.load()

    async def replace(self, state: BalancerDesiredState, expected_revision: int | None) -> StoredState:
        self._check()
        return await self.inside.replace(state, expected_revision)

    async def restore(self, held: StoredState) -> StoredState:
        self._check()
        return await self.inside.restore(held)

    async def wait_changes(self) -> AsyncGenerator[int, None]:
        self._check()
        try:
            async for revision in self._until_broken():
                yield revision
        finally:
            self.closed_listeners += 1

    async def _until_broken(self) -> AsyncIterator[int]:
        inside = self.inside.wait_changes()
        while True:
            change = asyncio.ensure_future(anext(inside))
            broken = asyncio.ensure_future(self._broken.wait())
            try:
                await asyncio.wait([change, broken], return_when=asyncio.FIRST_COMPLETED)
            finally:
                broken.cancel()
                if not change.done():
                    change.cancel()
            if self.problem is not None:
                raise StoreUnavailable(self.problem)
            yield change.result()

    async def aclose(self) -> None:
        pass


class Told:
    """What the switchboard heard."""

    def __init__(self) -> None:
        self.states: list[tuple[int, AgentDesiredState]] = []

    def __call__(self, revision: int, state: AgentDesiredState) -> None:
        self.states.append((revision, state))

    @property
    def revisions(self) -> list[int]:
        return [revision for revision, _ in self.states]


@asynccontextmanager
async def watching(store: FailingStore, told: Told) -> AsyncIterator[DesiredStateWatch]:
    watch = DesiredStateWatch(store, told, NoPause())
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch.run(), name="watch")
        yield watch
        task.cancel()


async def until_told(told: Told, revision: int) -> None:
    async with asyncio.timeout(5):
        while revision not in told.revisions:
            await asyncio.sleep(0)


async def turns(count: int = 50) -> None:
    """Everything that can happen without time passing happens."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def store() -> FailingStore:
    return FailingStore()


@pytest.fixture
def told() -> Told:
    return Told()


async def test_the_default_state_is_told_when_nothing_was_stored(store: FailingStore, told: Told) -> None:
    async with watching(store, told) as watch:
        await until_told(told, 0)
        assert watch.current == NEVER_STORED
    assert told.states == [(0, DEFAULT_DESIRED_STATE.for_agents())]


async def test_a_replacement_elsewhere_is_told_once(store: FailingStore, told: Told) -> None:
    async with watching(store, told):
        await until_told(told, 0)
        await store.inside.replace(state_with("/a"), None)
        await until_told(told, 1)
        await turns()
    assert told.states[1:] == [(1, state_with("/a").for_agents())]


async def test_a_replacement_here_is_told_before_it_is_answered_and_not_again(store: FailingStore, told: Told) -> None:
    async with watching(store, told) as watch:
        await until_told(told, 0)
        stored = await watch.replace(state_with("/a"), None)
        assert told.revisions == [0, 1]
        assert watch.current == stored
        await turns()
    assert told.revisions == [0, 1]


async def test_without_a_store_at_start_it_waits_says_so_and_serves_nothing_wrong(
    store: FailingStore, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    store.fail("the state database does not answer")
    async with watching(store, told) as watch:
        await turns(500)
        assert watch.current is None
        assert told.states == []
        assert watch.problem == "the state database does not answer"
        assert store.attempts > 3, "it tries again"
        said = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert [record.getMessage() for record in said] == [
            "waiting for the desired state: the state database does not answer"
        ], "once, and not at every attempt"
        with pytest.raises(StoreUnavailable):
            await watch.read()
        store.recover()
        await until_told(told, 0)
        assert watch.problem is None


async def test_an_outage_leaves_what_serves_alone_and_its_end_brings_what_was_missed(
    store: FailingStore, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    async with watching(store, told) as watch:
        held = await watch.replace(state_with("/a"), None)
        store.fail("gone")
        await turns()
        assert watch.current == held
        assert told.revisions[-1] == 1
        assert "gone; serving goes on with revision 1" in caplog.text
        attempts = store.attempts
        reading = await watch.read()
        assert (reading.stored, reading.is_stale) == (held, True)
        assert store.attempts == attempts, "a store that is known to be away is not waited for"
        await store.inside.replace(state_with("/b"), None)  # another balancer reaches it
        store.recover()
        await until_told(told, 2)
        assert not (await watch.read()).is_stale


async def test_a_replacement_during_an_outage_changes_nothing(store: FailingStore, told: Told) -> None:
    async with watching(store, told) as watch:
        held = await watch.replace(state_with("/a"), None)
        before = list(told.states)
        store.fail("gone")
        with pytest.raises(StoreUnavailable):
            await watch.replace(state_with("/b"), None)
        assert watch.current == held
        assert told.states == before


async def test_a_conflict_changes_nothing(store: FailingStore, told: Told) -> None:
    async with watching(store, told) as watch:
        held = await watch.replace(state_with("/a"), None)
        before = list(told.states)
        with pytest.raises(RevisionConflict):
            await watch.replace(state_with("/b"), 7)
        assert watch.current == held
        assert told.states == before


async def test_a_store_that_comes_back_empty_gets_the_state_back(store: FailingStore, told: Told) -> None:
    async with watching(store, told) as watch:
        for path in ("/a", "/b"):
            held = await watch.replace(state_with(path), None)
        store.fail("gone")
        store.forget()
        await turns()
        store.recover()
        async with asyncio.timeout(5):
            while await store.inside.load() != held:
                await asyncio.sleep(0)
        assert watch.current == held
        assert 0 not in told.revisions[1:], "the default state was never told in between"


async def test_a_replacement_into_a_store_that_has_just_come_back_empty_is_above_the_held_revision(
    store: FailingStore, told: Told
) -> None:
    async with watching(store, told) as watch:
        for path in ("/a", "/b"):
            await watch.replace(state_with(path), None)
        store.forget()  # and nobody has noticed
        assert await watch.replace(state_with("/c"), None) == StoredState(3, state_with("/c"))
        assert told.revisions[-1] == 3


async def test_of_two_that_hold_a_state_the_higher_revision_wins(store: FailingStore, told: Told) -> None:
    async with watching(store, told) as watch:
        await watch.replace(state_with("/a"), None)
        store.fail("gone")
        store.forget()
        await store.inside.restore(StoredState(9, state_with("/newer")))  # the other one was first
        await turns()
        store.recover()
        await until_told(told, 9)
        assert await store.inside.load() == StoredState(9, state_with("/newer"))


async def test_a_stopped_watcher_closes_what_it_listened_to(store: FailingStore, told: Told) -> None:
    async with watching(store, told):
        await until_told(told, 0)
    assert store.closed_listeners == 1
