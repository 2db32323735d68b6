"""The agents' half of a balancer, really listening."""

from collections.abc import AsyncIterator

import pytest

from tests.support.listening_board import ListeningBoard, listening_board


@pytest.fixture(params=[True, False], ids=["cancelling handlers", "not cancelling handlers"])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[ListeningBoard]:
    """The loss of a link has to be noticed with aiohttp's `handler_cancellation` on and off."""
    async with listening_board(handler_cancellation=request.param) as one:
        yield one
