"""One contract, three subjects: whatever keeps the desired state keeps it by the same rules."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from balancer.desired_state_open import open_store
from balancer.desired_state_store import (
    NEVER_STORED,
    DesiredStateStore,
    InMemoryDesiredStateStore,
    RevisionConflict,
    StoredState,
)
from shared.desired_state import DEFAULT_DESIRED_STATE, BalancerDesiredState, ChatTemplate, LocalToAgentSource
from tests.support.redis_server import RedisServer

WAIT_SECONDS = 10.0


def state_with(path: str) -> BalancerDesiredState:
    return DEFAULT_DESIRED_STATE.model_copy(update={"model": LocalToAgentSource(LocalToAgent=path)})


class Subject:
    """A way to open stores on one and the same place. `survives`: what is stored outlives the store object."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self._url = url
        self._stack = stack
        self.survives = not url.startswith("memory")

    async def open(self) -> DesiredStateStore:
        store = await open_store(self._url)
        self._stack.push_async_callback(store.aclose)
        return store


@pytest.fixture(params=["memory", "file", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory://"
        case "file":
            return f"file://{tmp_path}/state.json"
        case _:
            server: RedisServer = request.getfixturevalue("redis_server")
            return f"{server.url}?prefix=contract:"


@pytest.fixture
async def subject(place: str) -> AsyncIterator[Subject]:
    async with AsyncExitStack() as stack:
        yield Subject(place, stack)


@pytest.fixture
async def store(subject: Subject) -> DesiredStateStore:
    return await subject.open()


async def next_change(changes: AsyncGenerator[int, None]) -> int:
    async with asyncio.timeout(WAIT_SECONDS):
        return await anext(changes)


async def test_nothing_stored_is_the_default_state_at_revision_0(store: DesiredStateStore) -> None:
    assert await store.load() == NEVER_STORED == StoredState(0, DEFAULT_DESIRED_STATE)


async def test_what_was_stored_is_what_is_read(store: DesiredStateStore) -> None:
    state = state_with("/models/ä 💡.gguf").model_copy(
        update={
            "chat_template_override": ChatTemplate(content="{{ messages[0].content }}\n"),
            "use_chat_template_override": True,
            "served_model_names": ["small", "small:latest"],
            "lora_adapters": {"poet": LocalToAgentSource(LocalToAgent="/a/poet.gguf")},
        }
    )
    assert await store.replace(state, None) == StoredState(1, state)
    assert await store.load() == StoredState(1, state)


async def test_every_replacement_has_the_next_revision_also_by_the_same_state(store: DesiredStateStore) -> None:
    revisions = [(await store.replace(state_with("/a"), None)).revision for _ in range(3)]
    assert revisions == [1, 2, 3]


async def test_a_conditional_replacement_needs_the_revision_it_names(store: DesiredStateStore) -> None:
    first = await store.replace(state_with("/a"), 0)
    with pytest.raises(RevisionConflict) as refusal:
        await store.replace(state_with("/b"), 0)
    assert refusal.value.current_revision == 1
    assert await store.load() == first
    assert await store.replace(state_with("/b"), 1) == StoredState(2, state_with("/b"))


async def test_of_many_conditional_replacements_at_once_exactly_one_wins(store: DesiredStateStore) -> None:
    outcomes = await asyncio.gather(
        *(store.replace(state_with(f"/{index}"), 0) for index in range(8)), return_exceptions=True
    )
    winners = [outcome for outcome in outcomes if isinstance(outcome, StoredState)]
    assert [type(outcome) for outcome in outcomes].count(RevisionConflict) == 7
    assert winners == [await store.load()]


async def test_many_unconditional_replacements_at_once_lose_no_revision(store: DesiredStateStore) -> None:
    stored = await asyncio.gather(*(store.replace(state_with(f"/{index}"), None) for index in range(8)))
    assert sorted(one.revision for one in stored) == list(range(1, 9))
    assert await store.load() == max(stored, key=lambda one: one.revision)


async def test_a_lost_state_is_put_back_and_the_count_goes_on_from_it(store: DesiredStateStore) -> None:
    held = StoredState(41, state_with("/held"))
    assert await store.restore(held) == held
    assert await store.load() == held
    assert (await store.replace(state_with("/next"), None)).revision == 42


async def test_a_state_that_is_not_higher_is_not_put_back(store: DesiredStateStore) -> None:
    stored = await store.replace(state_with("/stored"), None)
    for revision in (0, 1):
        assert await store.restore(StoredState(revision, state_with("/old"))) == stored
    assert await store.load() == stored


async def test_who_listens_hears_at_once_and_then_of_each_change(store: DesiredStateStore) -> None:
    async with aclosing(store.wait_changes()) as changes:
        await next_change(changes)
        await store.replace(state_with("/a"), None)
        assert await next_change(changes) == 1
        await store.restore(StoredState(9, state_with("/b")))
        assert await next_change(changes) == 9


async def test_a_change_between_two_looks_is_not_missed(store: DesiredStateStore) -> None:
    async with aclosing(store.wait_changes()) as changes:
        await next_change(changes)
        for path in ("/a", "/b", "/c"):
            await store.replace(state_with(path), None)
        while await next_change(changes) != 3:
            pass


async def test_all_who_listen_hear_it(store: DesiredStateStore) -> None:
    async with aclosing(store.wait_changes()) as one, aclosing(store.wait_changes()) as other:
        await next_change(one)
        await next_change(other)
        await store.replace(state_with("/a"), None)
        assert await next_change(one) == await next_change(other) == 1


async def test_a_listener_that_is_cancelled_leaves_the_store_whole(store: DesiredStateStore) -> None:
    async with aclosing(store.wait_changes()) as changes:
        await next_change(changes)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(changes)
    assert (await store.replace(state_with("/a"), None)).revision == 1


async def test_what_was_stored_outlives_the_store_object(subject: Subject) -> None:
    first = await subject.open()
    stored = await first.replace(state_with("/a"), None)
    await first.aclose()
    assert await (await subject.open()).load() == (stored if subject.survives else NEVER_STORED)


async def test_a_store_that_is_closed_twice_is_closed(store: DesiredStateStore) -> None:
    await store.aclose()
    await store.aclose()


def test_the_in_memory_twin_needs_no_url() -> None:
    typed: DesiredStateStore = InMemoryDesiredStateStore()
    assert typed is not None
