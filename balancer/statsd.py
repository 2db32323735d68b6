"""Pushes Paddler's three gauges to a StatsD server: at once, then at every interval.

Each is a UDP datagram of its own, `name:value|g`. Nobody answers, so a server that is away is no error; one whose name
cannot be resolved is a warning, once. The address is resolved each time, so that a server may move.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from shared.settings_sources import Address

LONGEST_TRY_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class StatsdPush:
    """`gauges`: names with their prefix and values, none of them negative, as of the moment of asking."""

    address: Address
    interval_seconds: float
    gauges: Callable[[], Iterable[tuple[str, int]]]
    _has_complained: bool = False

    async def run(self) -> None:
        """For ever; ends only by cancellation."""
        while True:
            await self._push()
            await asyncio.sleep(self.interval_seconds)

    async def _push(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(LONGEST_TRY_SECONDS):
                transport, _ = await loop.create_datagram_endpoint(_Deaf, remote_addr=self.address)
        except (OSError, TimeoutError) as error:
            if not self._has_complained:
                log.warning("StatsD at %s cannot be reached, and is tried on: %s", self.address, error)
            self._has_complained = True
            return
        self._has_complained = False
        try:
            for name, value in self.gauges():
                transport.sendto(b"%b:%d|g" % (name.encode(), value))
        finally:
            transport.close()


class _Deaf(asyncio.DatagramProtocol):
    """An ICMP "port unreachable" comes back here, where it has no effect."""
