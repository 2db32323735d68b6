"""A scripted balancer at one end of the link, an agent with a scripted runtime at the other."""

from collections.abc import AsyncIterator

import pytest

from agent import dialler
from tests.support.linked_agent import LinkedAgent, linked_agent
from tests.support.scripted_balancer import ScriptedBalancer


@pytest.fixture
async def balancer() -> AsyncIterator[ScriptedBalancer]:
    async with ScriptedBalancer() as one:
        yield one


@pytest.fixture
async def agent(balancer: ScriptedBalancer) -> AsyncIterator[LinkedAgent]:
    async with linked_agent(balancer) as one:
        yield one


@pytest.fixture(autouse=True)
def quick_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between two tries are for fleets; the tests only need them to happen."""
    monkeypatch.setattr(dialler, "SHORTEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(dialler, "OTHER_VERSION_RETRY_SECONDS", 0.1)
