"""What `redis://`, `rediss://` and `unix://` addresses may say, checked before anything connects."""

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from balancer.desired_state_store import StoreRefused

SCHEMES = ("redis", "rediss", "unix")
DEFAULT_KEY_PREFIX = "steersman:"
MAX_KEY_PREFIX_CHARACTERS = 128

# Where the server is and how to trust it. Time-outs and retries are not for the address to change.
_PASSED_ON = ("db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """`shown` is for people: where, without user and password."""

    url: str = field(repr=False)
    password: str | None = field(repr=False)
    key_prefix: str
    shown: str


def read_redis_address(url: str, password: str | None, key_prefix: str) -> RedisAddress:
    """`?prefix=` in the address goes before `key_prefix`; `password` goes before one in the address.

    Raises StoreRefused with a sentence that repeats nothing secret.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise StoreRefused("the address of the state database is malformed; write redis://host:6379/0") from None
    passed_on: list[tuple[str, str]] = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "prefix":
            key_prefix = value
        elif name in _PASSED_ON:
            passed_on.append((name, value))
        else:
            raise StoreRefused(
                f"the address of the state database has an unknown option {name[:40]!r}; "
                f"known are prefix, {', '.join(_PASSED_ON)}"
            )
    _check(parts.scheme, parts.hostname, parts.path, passed_on)
    if len(key_prefix) > MAX_KEY_PREFIX_CHARACTERS or not key_prefix.isprintable():
        raise StoreRefused(f"the key prefix must be printable, at most {MAX_KEY_PREFIX_CHARACTERS} characters")
    where = parts.path if parts.scheme == "unix" else f"{parts.hostname}:{port or 6379}"
    return RedisAddress(
        url=urlunsplit(parts._replace(query=urlencode(passed_on), fragment="")),
        password=password,
        key_prefix=key_prefix,
        shown=f"{parts.scheme}://{where}",
    )


def _check(scheme: str, host: str | None, path: str, passed_on: list[tuple[str, str]]) -> None:
    if scheme == "unix":
        if not path.strip("/"):
            raise StoreRefused("the address of the state database names no socket; write unix:///run/redis.sock")
        database = ""
    else:
        if not host:
            raise StoreRefused(f"the address of the state database names no host; write {scheme}://host:6379/0")
        database = path.strip("/")
    for number in (database, *(value for name, value in passed_on if name == "db")):
        if number and not (number.isascii() and number.isdigit()):
            raise StoreRefused("the database in the address of the state database must be a number, such as /0")
