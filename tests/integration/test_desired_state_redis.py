"""The desired state in a real Redis that dies, hangs, forgets and holds what others wrote."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from redis.asyncio import Redis

from balancer.desired_state_open import open_store
from balancer.desired_state_redis import RedisDesiredStateStore
from balancer.desired_state_store import NEVER_STORED, StoredState, StoreUnavailable
from balancer.desired_state_watch import DesiredStateWatch
from balancer.redis_address import read_redis_address
from shared.desired_state import DEFAULT_DESIRED_STATE, AgentDesiredState, BalancerDesiredState, LocalToAgentSource
from tests.support.redis_server import RedisServer

PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.2


def state_with(path: str) -> BalancerDesiredState:
    return DEFAULT_DESIRED_STATE.model_copy(update={"model": LocalToAgentSource(LocalToAgent=path)})


@asynccontextmanager
async def connected(url: str, prefix: str = "steersman:") -> AsyncIterator[RedisDesiredStateStore]:
    store = RedisDesiredStateStore(read_redis_address(url, None, prefix), poll_seconds=POLL_SECONDS)
    try:
        yield store
    finally:
        await store.aclose()


class Balancer:
    """A store and its watcher, as one balancer has them."""

    def __init__(self, store: RedisDesiredStateStore) -> None:
        self.told: list[tuple[int, AgentDesiredState]] = []
        self.watch = DesiredStateWatch(store, self._hear, Random(1))

    def _hear(self, revision: int, state: AgentDesiredState) -> None:
        self.told.append((revision, state))

    @property
    def revision(self) -> int | None:
        return None if self.watch.current is None else self.watch.current.revision


@asynccontextmanager
async def balancer_on(url: str) -> AsyncIterator[Balancer]:
    async with connected(url) as store:
        balancer = Balancer(store)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(balancer.watch.run(), name="watch")
            yield balancer
            task.cancel()


async def write_as_others_do(client: Any, fields: dict[bytes, bytes]) -> None:
    """Straight into the hash, without a word on the channel."""
    await client.hset("steersman:desired_state", mapping=fields)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def test_both_kinds_of_address_reach_the_same_state(redis_server: RedisServer) -> None:
    async with connected(redis_server.url) as by_port, connected(redis_server.unix_url) as by_path:
        stored = await by_port.replace(state_with("/a"), None)
        assert await by_path.load() == stored


async def test_fleets_with_different_prefixes_do_not_see_each_other(redis_server: RedisServer) -> None:
    blue = await open_store(f"{redis_server.url}?prefix=blue:")
    green = await open_store(redis_server.url, key_prefix="green:")
    try:
        await blue.replace(state_with("/blue"), None)
        assert await green.load() == NEVER_STORED
    finally:
        await blue.aclose()
        await green.aclose()
    async with Redis.from_url(redis_server.url) as client:
        assert await client.keys() == [b"blue:desired_state"]


async def test_a_restart_of_redis_keeps_the_state_and_is_noticed(redis_server: RedisServer) -> None:
    async with balancer_on(redis_server.url) as balancer:
        await until(lambda: balancer.revision == 0)
        await balancer.watch.replace(state_with("/a"), None)
        await redis_server.kill()
        await until(lambda: balancer.watch.problem is not None)
        assert balancer.revision == 1
        await redis_server.start()
        await until(lambda: balancer.watch.problem is None)
        assert (await balancer.watch.replace(state_with("/b"), 1)).revision == 2


async def test_a_balancer_started_before_its_redis_waits_and_says_so(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    await redis_server.stop()
    with caplog.at_level(logging.WARNING):
        async with balancer_on(redis_server.url) as balancer:
            await until(lambda: balancer.watch.problem is not None)
            assert balancer.told == []
            assert "waiting for the desired state" in caplog.text
            await redis_server.start()
            await until(lambda: balancer.revision == 0)


async def test_a_change_by_one_balancer_reaches_the_others(redis_server: RedisServer) -> None:
    async with balancer_on(redis_server.url) as one, balancer_on(redis_server.url) as other:
        await until(lambda: one.revision == other.revision == 0)
        await one.watch.replace(state_with("/a"), None)
        await until(lambda: other.revision == 1)
        assert other.told[-1] == (1, state_with("/a").for_agents())


async def test_a_change_whose_message_was_lost_is_found_by_asking(redis_server: RedisServer) -> None:
    async with balancer_on(redis_server.url) as balancer, Redis.from_url(redis_server.url) as client:
        await balancer.watch.replace(state_with("/a"), None)
        await until(lambda: balancer.revision == 1)
        stored: Any = await client.hgetall("steersman:desired_state")
        await write_as_others_do(client, {**stored, b"revision": b"5"})
        await until(lambda: balancer.revision == 5)


async def test_a_redis_that_comes_back_empty_gets_the_state_back(redis_server: RedisServer) -> None:
    async with balancer_on(redis_server.url) as balancer:
        await balancer.watch.replace(state_with("/a"), None)
        await balancer.watch.replace(state_with("/b"), None)
        await redis_server.stop()
        redis_server.forget_data()
        await redis_server.start()
        async with connected(redis_server.url) as store:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await store.load()).revision == 0:
                    await asyncio.sleep(0.01)
            assert await store.load() == StoredState(2, state_with("/b"))
        assert [revision for revision, _ in balancer.told] in ([0, 1, 2], [1, 2])


async def test_a_flushed_redis_gets_the_state_back_without_any_disconnection(redis_server: RedisServer) -> None:
    async with balancer_on(redis_server.url) as balancer, Redis.from_url(redis_server.url) as client:
        await balancer.watch.replace(state_with("/a"), None)
        await client.flushall()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await client.hget("steersman:desired_state", "revision") != b"1":
                await asyncio.sleep(0.01)


async def test_without_redis_a_replacement_is_refused_at_once_and_changes_nothing(
    redis_server: RedisServer,
) -> None:
    async with balancer_on(redis_server.url) as balancer:
        await balancer.watch.replace(state_with("/a"), None)
        await redis_server.kill()
        with pytest.raises(StoreUnavailable, match=r"the state database at redis://127\.0\.0\.1:\d+ "):
            await balancer.watch.replace(state_with("/b"), None)
        assert balancer.revision == 1
        await redis_server.start()
        await until(lambda: balancer.watch.problem is None)
        async with connected(redis_server.url) as store:
            assert await store.load() == StoredState(1, state_with("/a"))


async def test_a_redis_that_hangs_is_not_waited_for_and_does_not_write_later(redis_server: RedisServer) -> None:
    async with connected(redis_server.url) as store:
        held = await store.replace(state_with("/a"), None)
        redis_server.pause()
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(StoreUnavailable, match="does not answer"):
                await store.replace(state_with("/b"), None)
        redis_server.resume()
        assert await store.load() == held


async def test_a_write_that_redis_comes_to_too_late_is_not_done(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis hangs exactly between our look at its clock and our write."""
    async with connected(redis_server.url) as store:
        held = await store.replace(state_with("/a"), None)
        now = store._now_ms

        async def then_it_hangs() -> int:
            answer = await now()
            redis_server.pause()
            return answer

        monkeypatch.setattr(store, "_now_ms", then_it_hangs)
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(StoreUnavailable):
                await store.replace(state_with("/b"), None)
        redis_server.resume()
        async with Redis.from_url(redis_server.url) as client:
            await client.ping()  # it has worked off what lay in its sockets
        assert await store.load() == held


async def test_a_document_of_a_newer_version_is_left_alone_and_what_serves_goes_on(
    redis_server: RedisServer,
) -> None:
    async with balancer_on(redis_server.url) as balancer, Redis.from_url(redis_server.url) as client:
        await balancer.watch.replace(state_with("/a"), None)
        newer = {b"revision": b"7", b"document": b'{"new": true}', b"format": b"2"}
        await write_as_others_do(client, newer)
        await until(lambda: balancer.watch.problem is not None)
        assert balancer.watch.problem is not None
        assert "too old" in balancer.watch.problem
        assert balancer.revision == 1
        with pytest.raises(StoreUnavailable, match="newer version"):
            await balancer.watch.replace(state_with("/b"), None)
        stored = await client.hgetall("steersman:desired_state")
        assert stored == newer


async def test_a_document_that_nobody_can_read_is_repaired_by_the_next_replacement(
    redis_server: RedisServer,
) -> None:
    async with connected(redis_server.url) as store, Redis.from_url(redis_server.url) as client:
        await store.replace(state_with("/a"), None)
        await client.hset("steersman:desired_state", "document", '{"model": 5}')
        with pytest.raises(StoreUnavailable, match="cannot be read"):
            await store.load()
        assert await store.replace(state_with("/b"), None) == StoredState(2, state_with("/b"))


async def test_a_key_of_another_type_is_a_sentence(redis_server: RedisServer) -> None:
    async with connected(redis_server.url) as store, Redis.from_url(redis_server.url) as client:
        await client.set("steersman:desired_state", "text")
        for attempt in (store.load(), store.replace(state_with("/a"), None)):
            with pytest.raises(StoreUnavailable, match="refuses"):
                await attempt
        assert await client.get("steersman:desired_state") == b"text"


async def test_a_wrong_password_is_a_sentence_without_it(redis_server: RedisServer) -> None:
    async with Redis.from_url(redis_server.url) as client:
        await client.config_set("requirepass", "open sesame")
    for password in (None, "hunter2"):
        store = await open_store(redis_server.url, password=password)
        with pytest.raises(StoreUnavailable) as refused:
            await store.load()
        await store.aclose()
        assert "password" in str(refused.value) or "Authentication required" in str(refused.value)
        assert "hunter2" not in str(refused.value)
    store = await open_store(redis_server.url, password="open sesame")
    assert await store.load() == NEVER_STORED
    await store.aclose()


async def test_a_listener_that_is_given_up_gives_its_connection_back(redis_server: RedisServer) -> None:
    async with connected(redis_server.url) as store, Redis.from_url(redis_server.url) as client:
        for _ in range(30):  # more than the pool has
            changes = store.wait_changes()
            await anext(changes)
            await changes.aclose()
        assert len(await client.client_list()) < 10
