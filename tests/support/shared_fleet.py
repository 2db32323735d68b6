"""One fleet for the modules whose tests need no flags of their own and end no process: starting one takes seconds."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.running_fleet import RunningFleet, desired_state, running_fleet

SLOTS = 4
AGENT_NAME = "agent-0"


class FleetKeeper:
    """Starts the fleet for the first module that asks, and another should a module have ended a process of it."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._stack = ExitStack()
        self._fleet: RunningFleet | None = None

    def fleet(self) -> RunningFleet:
        """One agent of four slots without a model; nobody asks it anything. What a module loads is loaded anew: with
        another's prompts in the cells an answer may fall the other way at a near tie."""
        if self._fleet is None or not is_whole(self._fleet):
            self.close()
            flags = ("--buffered-request-timeout", "120s")
            self._fleet = self._stack.enter_context(running_fleet(self._folders.mktemp("fleet"), *flags))
            self._fleet.add_agent(slots=SLOTS, name=AGENT_NAME)
        asyncio.run(self._fleet.wait_idle())
        revision = self._fleet.put(desired_state("None"))
        self._fleet.wait_agents(lambda agent: agent["applied_revision"] == revision)
        return self._fleet

    def close(self) -> None:
        self._fleet = None
        self._stack.close()


def is_whole(fleet: RunningFleet) -> bool:
    """The balancer and its one agent run."""
    return [one.exit_status for one in (fleet.balancer, *fleet.agents)] == [None, None]


@contextmanager
def fleet_keeper(folders: pytest.TempPathFactory) -> Iterator[FleetKeeper]:
    """Ends its fleet afterwards."""
    keeper = FleetKeeper(folders)
    try:
        yield keeper
    finally:
        keeper.close()
