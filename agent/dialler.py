"""Keeps a link to one balancer up, whatever happens: dial, serve, wait, dial again."""

import asyncio
import logging
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
from aiohttp import WSCloseCode

from agent.balancer_link import GREETING_TIMEOUT_SECONDS, LINK_FAILURES, BalancerLink, LinkLost, open_connection
from agent.links import Links
from shared.messages_from_agent import Hello
from shared.messages_to_agent import MessageToAgent, Welcome
from shared.settings_sources import Address
from shared.wire_errors import ProtocolVersionMismatch, WireError

logger = logging.getLogger(__name__)

SHORTEST_RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 5.0
OTHER_VERSION_RETRY_SECONDS = 30.0
SAME_BALANCER_RETRY_SECONDS = 30.0


class LinkEvents(Protocol):
    """Who is told what happens on links. Synchronous: nothing here may wait."""

    def hello(self) -> Hello: ...

    def link_up(self, link: int, welcome: Welcome) -> None: ...

    def received(self, link: int, message: MessageToAgent) -> None: ...

    def link_down(self, link: int) -> None: ...

    def versions_changed(self) -> None: ...


@dataclass(slots=True)
class BalancerAccess:
    """How to come in. `token`: what `--agent-token-file` holds. `tls`: what to trust; None: no TLS."""

    token: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None

    def change(self, token: str | None, tls: ssl.SSLContext | None) -> None:
        """From the next dial on; links that are up stay."""
        self.token, self.tls = token, tls


@dataclass(frozen=True, slots=True)
class Identity:
    """As whom to dial."""

    agent_id: str
    name: str | None
    access: BalancerAccess


class Dialler:
    """One balancer's address."""

    def __init__(
        self,
        address: Address,
        identity: Identity,
        session: aiohttp.ClientSession,
        links: Links,
        events: LinkEvents,
    ) -> None:
        self.address = address
        self._identity = identity
        self._session = session
        self._links = links
        self._events = events
        self._link: BalancerLink | None = None
        self._same_as: str | None = None  # a balancer that has been reached through another address too
        self._trouble: str | None = None  # what was logged last, until a link is up
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Dial for ever; ends after `close`. Cancelled while it dials or waits: nothing is left open."""
        self._task = asyncio.current_task()
        backoff = Backoff(random.random)
        while not self._closing.is_set():
            delay_seconds = await self._serve_once(backoff)
            await self._wait_unless_closing(backoff.next() if delay_seconds is None else delay_seconds)

    async def close(self) -> None:
        """End the link with 1001, so that the balancer runs elsewhere what is unfinished here. Idempotent."""
        self._closing.set()
        if self._link is not None:
            await self._link.close(WSCloseCode.GOING_AWAY, "the agent shuts down")
        elif self._task is not None:
            self._task.cancel()

    async def _serve_once(self, backoff: "Backoff") -> float | None:
        """Returns how long to wait before the next try; None: as the back-off says."""
        if self._same_as is not None and self._links.is_linked_to(self._same_as):
            return SAME_BALANCER_RETRY_SECONDS
        try:
            await self._connect_and_serve(backoff)
        except ProtocolVersionMismatch as mismatch:
            self._note_version_problem(f"balancer {self.address}: {mismatch}")
            return OTHER_VERSION_RETRY_SECONDS
        except (LinkLost, *LINK_FAILURES, TimeoutError) as error:
            if not self._closing.is_set():
                self._note_trouble(_sentence(error))
        return None

    async def _connect_and_serve(self, backoff: "Backoff") -> None:
        access = self._identity.access
        scheme = "ws" if access.tls is None else "wss"
        url = f"{scheme}://{self.address}/api/v1/agent_socket/{self._identity.agent_id}"
        link = await open_connection(self._session, url, access.token, access.tls)
        code, reason = int(WSCloseCode.GOING_AWAY), ""
        try:
            welcome = await link.greet(self._events.hello())
            self._note_version_problem(None)
            if self._links.is_linked_to(welcome.balancer_id):
                # It keeps one link for each agent, and has just replaced the other one, which dials again.
                self._same_as = welcome.balancer_id
                logger.warning("balancer %s is one that this agent reaches through another address", self.address)
                return
            backoff.reset()
            await self._serve(link, welcome)
        except WireError as error:
            code, reason = error.close_code, str(error)
            raise
        finally:
            await link.close(code, reason)

    async def _serve(self, link: BalancerLink, welcome: Welcome) -> None:
        number = self._links.join(link)
        self._link = link
        self._trouble = None
        logger.info("balancer %s: link %d is up", self.address, number)
        try:
            self._events.link_up(number, welcome)
            await link.serve(lambda message: self._events.received(number, message))
        finally:
            self._link = None
            self._links.leave(number)
            self._events.link_down(number)

    def _note_trouble(self, sentence: str) -> None:
        """One line per kind of trouble and outage, not one per try."""
        if sentence != self._trouble:
            logger.warning("balancer %s: %s; trying again until it answers", self.address, sentence)
        self._trouble = sentence

    def _note_version_problem(self, problem: str | None) -> None:
        if self._links.note_version_problem(str(self.address), problem):
            if problem is not None:
                logger.error("%s; trying again every %.0f s", problem, OTHER_VERSION_RETRY_SECONDS)
            self._events.versions_changed()

    async def _wait_unless_closing(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            pass


class Backoff:
    """0.2 s, doubling to 5 s, each shortened by up to half so that a fleet does not dial in step."""

    def __init__(self, random_fraction: Callable[[], float]) -> None:
        self._random_fraction = random_fraction
        self._seconds = SHORTEST_RETRY_SECONDS

    def next(self) -> float:
        """How long to wait now, in seconds."""
        seconds, self._seconds = self._seconds, min(2 * self._seconds, LONGEST_RETRY_SECONDS)
        return seconds * (1 - self._random_fraction() / 2)

    def reset(self) -> None:
        """A link came up."""
        self._seconds = SHORTEST_RETRY_SECONDS


def _sentence(error: Exception) -> str:
    if isinstance(error, aiohttp.WSServerHandshakeError):
        if error.status == 401:
            return "it refuses this agent's token (see --agent-token-file)"
        return f"it answered HTTP {error.status} instead of opening the link"
    if isinstance(error, TimeoutError):
        return f"no answer within {GREETING_TIMEOUT_SECONDS:.0f} s"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not one that this agent trusts for that address (see --management-ca-file)"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return "cannot agree on TLS with it; does it have a --tls-cert?"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it hung up; if it has a --tls-cert, this agent needs --management-tls"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect ({error.os_error.strerror or type(error.os_error).__name__})"
    return str(error) or type(error).__name__
