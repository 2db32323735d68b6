"""The Redis of the tests is a real one that keeps, loses and pauses as asked: other tests lean on that."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.redis_server import RedisServer


async def test_both_addresses_reach_the_same_data(redis_server: RedisServer) -> None:
    async with Redis.from_url(redis_server.url) as by_port, Redis.from_url(redis_server.unix_url) as by_path:
        await by_port.set("word", "kept")
        assert await by_path.get("word") == b"kept"


async def test_killed_and_started_it_keeps_its_data_and_its_port(redis_server: RedisServer) -> None:
    url = redis_server.url
    async with Redis.from_url(url) as client:
        await client.set("word", "kept")
    await redis_server.kill()
    assert not redis_server.is_running
    await redis_server.start()
    assert redis_server.url == url
    async with Redis.from_url(url) as client:
        assert await client.get("word") == b"kept"


async def test_told_to_forget_it_comes_back_empty(redis_server: RedisServer) -> None:
    async with Redis.from_url(redis_server.url) as client:
        await client.set("word", "lost")
    await redis_server.stop()
    redis_server.forget_data()
    await redis_server.start()
    async with Redis.from_url(redis_server.url) as client:
        assert await client.get("word") is None


async def test_paused_it_answers_nothing_until_it_is_resumed(redis_server: RedisServer) -> None:
    async with Redis.from_url(redis_server.url) as client:
        await client.set("word", "kept")
        redis_server.pause()
        asking: asyncio.Future[Any] = asyncio.ensure_future(client.get("word"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asking), 0.2)
        redis_server.resume()
        assert await asking == b"kept"
