"""The desired state in Redis: one hash that holds revision and document, changed by scripts that compare first.

The hash is the truth. A message on the channel only says that it is worth looking; since such a message can be lost,
the revision is read every few seconds as well. redis-py is told to retry nothing: a retried write may be one that had
worked. Its exceptions end here.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from typing import Any, TypeVar

import orjson
import redis
from redis import DriverInfo
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from balancer.desired_state_document import read_state
from balancer.desired_state_store import (
    FORMAT_VERSION,
    NEVER_STORED,
    RevisionConflict,
    StoredState,
    StoreUnavailable,
)
from balancer.redis_address import RedisAddress
from shared.desired_state import BalancerDesiredState

T = TypeVar("T")

COMMAND_SECONDS = 2.0
POLL_SECONDS = 3.0
# A write that Redis comes to later than this (it hung, or was suspended) is not done: the client has its 503. By the
# clock of Redis, which the read before it told. Shorter than COMMAND_SECONDS, so that a write that is done is heard of.
_WRITE_BEFORE_SECONDS = 1.0

# ARGV: expected revision or '', revision to restore or '', document, format, latest time in ms, channel.
# Returns {verdict, revision}. An absent or unreadable revision counts as 0.
_WRITE = """
local stored = redis.call('HMGET', KEYS[1], 'revision', 'format')
local revision = tonumber(stored[1] or '0') or 0
if stored[2] and stored[2] ~= ARGV[4] then return {'format', revision} end
local time = redis.call('TIME')
if time[1] * 1000 + math.floor(time[2] / 1000) > tonumber(ARGV[5]) then return {'late', revision} end
if ARGV[1] ~= '' and tonumber(ARGV[1]) ~= revision then return {'conflict', revision} end
local next_revision = revision + 1
if ARGV[2] ~= '' then
    next_revision = tonumber(ARGV[2])
    if next_revision <= revision then return {'kept', revision} end
end
local text = string.format('%.0f', next_revision)
redis.call('HSET', KEYS[1], 'revision', text, 'document', ARGV[3], 'format', ARGV[4])
redis.call('PUBLISH', ARGV[6], text)
return {'stored', next_revision}
"""


class RedisDesiredStateStore:
    """Connects when first used, so that a balancer can start before its Redis."""

    def __init__(self, address: RedisAddress, poll_seconds: float = POLL_SECONDS) -> None:
        self._name = f"the state database at {address.shown}"
        self._key = f"{address.key_prefix}desired_state"
        self._channel = f"{address.key_prefix}desired_state.changed"
        self._poll_seconds = poll_seconds
        # Typed as Any: what redis-py says its commands return changes between releases.
        self._redis: Any = Redis.from_url(
            address.url,
            password=address.password,
            socket_timeout=COMMAND_SECONDS,
            socket_connect_timeout=COMMAND_SECONDS,
            retry=Retry(NoBackoff(), 0),
            retry_on_error=[],
            max_connections=16,
            client_name="steersman-balancer",
            driver_info=DriverInfo(lib_version=redis.__version__),  # else each connection searches the disk for it
        )

    async def load(self) -> StoredState:
        revision, document, form = await self._bounded(self._redis.hmget(self._key, "revision", "document", "format"))
        if revision is None and document is None:
            return NEVER_STORED
        if form != FORMAT_VERSION.encode():
            raise StoreUnavailable(f"{self._name} holds a format that this software does not know; it is too old")
        if document is None:
            raise StoreUnavailable(f"{self._name} holds a revision without a document under {self._key}")
        return StoredState(_revision_of(revision), read_state(document, f"{self._name}: {self._key}"))

    async def replace(self, state: BalancerDesiredState, expected_revision: int | None) -> StoredState:
        verdict, revision = await self._write(
            state, expected="" if expected_revision is None else str(expected_revision)
        )
        if verdict == b"conflict":
            raise RevisionConflict(revision)
        return StoredState(revision, state)

    async def restore(self, held: StoredState) -> StoredState:
        verdict, _ = await self._write(held.state, restore=str(held.revision))
        return held if verdict == b"stored" else await self.load()

    async def wait_changes(self) -> AsyncGenerator[int, None]:
        subscription: PubSub = self._redis.pubsub(ignore_subscribe_messages=True)
        try:
            await self._bounded(subscription.subscribe(self._channel))
            # Only its confirmation proves that nothing is missed from now on.
            await self._bounded(subscription.get_message(timeout=COMMAND_SECONDS))
            seen = await self._revision()
            yield seen
            while True:
                await self._bounded(
                    subscription.get_message(timeout=self._poll_seconds), self._poll_seconds + COMMAND_SECONDS
                )
                revision = await self._revision()
                if revision != seen:
                    seen = revision
                    yield revision
        finally:
            await subscription.aclose()  # type: ignore[no-untyped-call]

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _revision(self) -> int:
        return _revision_of(await self._bounded(self._redis.hget(self._key, "revision")))

    async def _write(self, state: BalancerDesiredState, *, expected: str = "", restore: str = "") -> tuple[bytes, int]:
        """The verdict is `stored`, `kept` or `conflict`. Raises StoreUnavailable."""
        latest_ms = await self._now_ms() + int(_WRITE_BEFORE_SECONDS * 1000)
        document = orjson.dumps(state.document())
        arguments = (expected, restore, document, FORMAT_VERSION, latest_ms, self._channel)
        verdict, revision = await self._bounded(self._redis.eval(_WRITE, 1, self._key, *arguments))
        if verdict == b"late":
            raise StoreUnavailable(f"{self._name} answers too slowly; nothing was stored")
        if verdict == b"format":
            raise StoreUnavailable(f"{self._name} holds a state of a newer version, which is left alone")
        return verdict, revision

    async def _now_ms(self) -> int:
        """Asked before each write: a Redis that hangs fails here, where nothing can be stored later."""
        seconds, microseconds = await self._bounded(self._redis.time())
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def _bounded(self, answer: Awaitable[T], seconds: float = COMMAND_SECONDS) -> T:
        """Cancelling it closes the connection that it used, never returns it half read to the pool."""
        try:
            async with asyncio.timeout(seconds + COMMAND_SECONDS):
                return await answer
        except AuthenticationError as error:
            raise StoreUnavailable(f"{self._name} refuses our user or password") from error
        except ResponseError as error:
            raise StoreUnavailable(f"{self._name} refuses: {str(error)[:200]}") from error
        except (TimeoutError, RedisError) as error:
            raise StoreUnavailable(f"{self._name} does not answer ({_reason(error)})") from error
        except OSError as error:
            raise StoreUnavailable(f"{self._name} cannot be reached ({error.strerror or error})") from error


def _revision_of(value: bytes | None) -> int:
    """The scripts count an unreadable revision as 0 as well, so that the next replacement repairs it."""
    return int(value) if value is not None and value.isdigit() else 0


def _reason(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__
