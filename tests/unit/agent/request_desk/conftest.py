"""Every request is answered once and ends once, and a slot is a request in flight, no more and no less."""

from collections.abc import AsyncIterator

import pytest

from tests.support.desk_driver import DeskDriver, desk_driver


@pytest.fixture
async def driver() -> AsyncIterator[DeskDriver]:
    async with desk_driver() as one:
        yield one
