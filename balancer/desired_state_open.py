"""From `--state-database` to a store: the one list of what it may name."""

from balancer.desired_state_file import FileDesiredStateStore, path_of_url
from balancer.desired_state_redis import RedisDesiredStateStore
from balancer.desired_state_store import DesiredStateStore, InMemoryDesiredStateStore, StoreRefused
from balancer.redis_address import DEFAULT_KEY_PREFIX, SCHEMES, read_redis_address

KNOWN = "memory://, file:///absolute/path, redis://host:6379/0, rediss://host:6379/0 or unix:///run/redis.sock"


async def open_store(
    url: str, *, password: str | None = None, key_prefix: str = DEFAULT_KEY_PREFIX
) -> DesiredStateStore:
    """The store that `url` names. A file is locked and read here; a Redis is not connected yet.

    Raises StoreRefused with one sentence that says what to change.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        hint = " (did you mean memory://?)" if url == "memory" else ""
        raise StoreRefused(f"the state database must be an address, {KNOWN}{hint}")
    match scheme.lower():
        case "memory":
            if rest:
                raise StoreRefused("memory:// takes nothing after it")
            return InMemoryDesiredStateStore()
        case "file":
            return await FileDesiredStateStore.open(path_of_url(url))
        case known if known in SCHEMES:
            return RedisDesiredStateStore(read_redis_address(url, password, key_prefix))
        case unknown:
            raise StoreRefused(f"the state database has an unknown scheme {unknown[:20]!r}; use {KNOWN}")
