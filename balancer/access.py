"""Who may come in: agents by the token of `--agent-token-file`, everybody else by the keys of the service they ask."""

import hmac
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from aiohttp import hdrs, web

from balancer.key_ring import KeyRing
from shared.identifiers import new_identifier
from shared.settings_sources import Address

REFUSED_TEXT: Final = "a valid key is required: Authorization: Bearer <key>"
LOG_INTERVAL_SECONDS: Final = 60.0

_log = logging.getLogger(__name__)


def bearer_of(authorization: str | None) -> bytes | None:
    """What an `Authorization` header shows; None when it shows no bearer."""
    scheme, _, shown = (authorization or "").partition(" ")
    return _bytes_of(shown) if scheme.lower() == "bearer" else None


def _bytes_of(shown: str) -> bytes:
    return shown.strip().encode("utf-8", "surrogateescape")


class AgentAccess:
    """`token` None: everybody may be an agent, as with Paddler."""

    def __init__(self, token: bytes | None) -> None:
        self._token = token

    @property
    def is_open(self) -> bool:
        """Whether no token is set."""
        return self._token is None

    def change(self, token: bytes | None) -> None:
        """Agents that are linked stay; whoever dials from now on has to show this one."""
        self._token = token

    def admits(self, authorization: str | None) -> bool:
        """Whether an `Authorization` header shows the token. Takes the same time however much of it is right."""
        if self._token is None:
            return True
        shown = bearer_of(authorization)
        return shown is not None and hmac.compare_digest(shown, self._token)

    def authorizes(self, request: web.Request) -> bool:
        """`admits` for a request of the agents' socket; who is turned away is logged."""
        is_admitted = self.admits(request.headers.get(hdrs.AUTHORIZATION))
        if not is_admitted:
            _log.warning("an agent at %s shows no token, or a wrong one: see --agent-token-file", request.remote)
        return is_admitted


@dataclass(frozen=True, slots=True)
class Door:
    """What is particular to one service.

    `open_prefixes`: paths that begin so look after themselves. `key_header`: its name, and the paths where a key may
    also stand in it. `refuse` makes the answer for who shows no valid key.
    """

    service: str
    open_paths: frozenset[str]
    refuse: Callable[[web.Request], web.Response]
    open_prefixes: tuple[str, ...] = ()
    key_header: tuple[str, frozenset[str]] | None = None


class ServiceGuard:
    """Asks for a key at every path of a service, known or not, except the open ones. No keys: everybody comes in."""

    def __init__(self, door: Door, keys: KeyRing | None, clock: Callable[[], float]) -> None:
        self._door = door
        self._keys = keys
        self._clock = clock
        self._refused = 0
        self._next_log = float("-inf")

    @property
    def is_open(self) -> bool:
        """Whether no keys are set."""
        return self._keys is None

    def change(self, keys: KeyRing | None) -> None:
        """Requests that are running go on."""
        self._keys = keys

    def refusal(self, request: web.Request) -> web.Response | None:
        """The answer for who may not come in; None: come in."""
        # The router serves these literal paths for no other spelling than this, so nothing else is let in with them.
        if self._keys is None or request.path in self._door.open_paths:
            return None
        if self._door.open_prefixes and request.path.startswith(self._door.open_prefixes):
            return None
        if any(self._keys.name_of(shown) is not None for shown in self._shown(request)):
            return None
        self._log_refusal(request.remote)
        return self._door.refuse(request)

    def _shown(self, request: web.Request) -> list[bytes]:
        shown = [bearer_of(request.headers.get(hdrs.AUTHORIZATION))]
        if self._door.key_header is not None:
            name, paths = self._door.key_header
            if request.path in paths and name in request.headers:
                shown.append(_bytes_of(request.headers[name]))
        return [one for one in shown if one]

    def _log_refusal(self, remote: str | None) -> None:
        """One line a minute, however many knock."""
        self._refused += 1
        now = self._clock()
        if now < self._next_log:
            return
        _log.warning(
            "%s: %d requests without a valid key were refused, the last from %s",
            self._door.service,
            self._refused,
            remote,
        )
        self._refused, self._next_log = 0, now + LOG_INTERVAL_SECONDS


def refuse_in_plain_text(_: web.Request) -> web.Response:
    """401 as native services say it."""
    headers = {hdrs.WWW_AUTHENTICATE: "Bearer", "X-Request-Id": new_identifier()}
    return web.Response(status=401, text=REFUSED_TEXT, headers=headers)


@dataclass(frozen=True, slots=True)
class OpenService:
    """A service that asks nobody for a secret, where it listens, and the flag that would change it."""

    name: str
    addresses: Sequence[Address]
    flag: str


def warn_when_open(services: Sequence[OpenService]) -> None:
    """Say once and loudly that everybody who reaches these addresses may use them. Loopback is nobody else's."""
    reachable = [
        (f"{service.name} on {address}", service.flag)
        for service in services
        for address in service.addresses
        if not is_loopback(address.host)
    ]
    if not reachable:
        return
    _log.warning(
        "EVERYTHING IS OPEN: whoever reaches it may use %s without a key. Listen on 127.0.0.1, close the ports to "
        "others, or set %s.",
        ", ".join(dict.fromkeys(where for where, _ in reachable)),
        ", ".join(dict.fromkeys(flag for _, flag in reachable)),
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
