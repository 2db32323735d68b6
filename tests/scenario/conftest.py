"""The fleet that modules share."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.running_fleet import RunningFleet
from tests.support.shared_fleet import FleetKeeper, fleet_keeper
from tests.support.tiny_model import demo_model_path


@pytest.fixture(scope="session")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetKeeper]:
    with fleet_keeper(tmp_path_factory) as keeper:
        yield keeper


@pytest.fixture(scope="module")
def shared_fleet(keeper: FleetKeeper) -> Iterator[RunningFleet]:
    """One agent of four slots, idle at both ends of a module and without a model at its beginning."""
    fleet = keeper.fleet()
    yield fleet
    asyncio.run(fleet.wait_idle())


@pytest.fixture(scope="module")
def demo_fleet(shared_fleet: RunningFleet) -> RunningFleet:
    """Serves the demo model, greedy and without penalties, with 2048 cells."""
    shared_fleet.serve(demo_model_path(), context_size=2048)
    return shared_fleet
