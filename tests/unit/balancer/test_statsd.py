"""A StatsD server whose address leads nowhere."""

import asyncio
import contextlib
import socket
from typing import Any

import pytest

from balancer.statsd import StatsdPush
from shared.settings_sources import Address
from tests.support.conditions import wait_until


async def test_a_name_that_cannot_be_resolved_is_tried_on_and_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    async def fails(*_: object, remote_addr: Address) -> Any:
        tries.append(remote_addr)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_datagram_endpoint", fails)
    address = Address("statsd.example", 8125)
    pushing = asyncio.create_task(StatsdPush(address, 0.001, lambda: [("x", 1)]).run())
    await wait_until(lambda: len(tries) >= 3)
    pushing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await pushing
    assert set(tries) == {address}
    assert [record.getMessage() for record in caplog.records] == [
        "StatsD at statsd.example:8125 cannot be reached, and is tried on: [Errno -2] Name or service not known"
    ]
