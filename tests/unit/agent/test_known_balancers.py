"""Each balancer is dialled once, however many tell of it, and there is a most of them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import cast

import aiohttp
import pytest

from agent.dialler import BalancerAccess, Dialler, Identity, LinkEvents
from agent.known_balancers import MAX_BALANCERS, KnownBalancers
from agent.links import Links
from shared.settings_sources import Address


@pytest.fixture
async def dialled(monkeypatch: pytest.MonkeyPatch) -> list[Address]:
    """Those whose dialler runs, in order."""
    running: list[Address] = []

    async def run(dialler: Dialler) -> None:
        running.append(dialler.address)

    monkeypatch.setattr(Dialler, "run", run)
    return running


@pytest.fixture
async def balancers(dialled: list[Address]) -> AsyncIterator[KnownBalancers]:
    async with asyncio.TaskGroup() as tasks:
        session = cast(aiohttp.ClientSession, None)  # diallers of these tests dial nobody
        known = KnownBalancers(Identity("a", None, BalancerAccess()), session, Links(), tasks)
        known.events = cast(LinkEvents, object())
        yield known


async def test_one_that_is_known_is_not_dialled_twice(balancers: KnownBalancers, dialled: list[Address]) -> None:
    balancers.dial(Address("a", 1))
    balancers.learn(["a:1", "b:2", "b:2"])
    await asyncio.sleep(0)
    assert dialled == [Address("a", 1), Address("b", 2)]
    assert repr(balancers) == "<KnownBalancers a:1, b:2>"


async def test_what_is_no_address_is_said_and_the_others_are_dialled(
    balancers: KnownBalancers, dialled: list[Address], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        balancers.learn(["nonsense", "b:2"])
    await asyncio.sleep(0)
    assert dialled == [Address("b", 2)]
    assert "'nonsense'" in caplog.text


async def test_there_is_a_most(balancers: KnownBalancers, dialled: list[Address]) -> None:
    balancers.learn([f"host-{number}:1" for number in range(MAX_BALANCERS + 5)])
    await asyncio.sleep(0)
    assert len(dialled) == MAX_BALANCERS
