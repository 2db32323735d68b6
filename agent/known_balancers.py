"""The balancers that this agent keeps links to: those of its settings, and those that another balancer told of."""

import asyncio
import logging

import aiohttp

from agent.dialler import Dialler, Identity, LinkEvents
from agent.links import Links
from shared.settings_sources import Address, parse_address

logger = logging.getLogger(__name__)

MAX_BALANCERS = 64


class KnownBalancers:
    """One dialler for each. `events`: who is told what happens on their links; set before the first is dialled."""

    def __init__(
        self, identity: Identity, session: aiohttp.ClientSession, links: Links, tasks: asyncio.TaskGroup
    ) -> None:
        self.events: LinkEvents | None = None
        self._identity = identity
        self._session = session
        self._links = links
        self._tasks = tasks
        self._diallers: dict[Address, Dialler] = {}

    def __repr__(self) -> str:
        return f"<KnownBalancers {', '.join(map(str, self._diallers)) or 'none'}>"

    def dial(self, address: Address) -> None:
        """Keep a link to this balancer from now on. One that is dialled already is not dialled twice."""
        if address in self._diallers or len(self._diallers) >= MAX_BALANCERS:
            return
        assert self.events is not None
        dialler = Dialler(address, self._identity, self._session, self._links, self.events)
        self._diallers[address] = dialler
        self._tasks.create_task(dialler.run(), name=f"balancer {address}")

    def learn(self, addresses: list[str]) -> None:
        """A balancer told of others."""
        for text in addresses:
            try:
                self.dial(parse_address(text))
            except ValueError as error:
                logger.warning("a balancer told of another at %r, which %s", text[:100], error)

    async def close(self) -> None:
        """Close all links with 1001."""
        async with asyncio.TaskGroup() as closing:
            for address, dialler in self._diallers.items():
                closing.create_task(dialler.close(), name=f"close the link to {address}")
