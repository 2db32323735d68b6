"""A machine with room for two; the driver checks the invariants after every event."""

from collections.abc import Iterator

import pytest

from tests.support.machine_driver import MachineDriver


@pytest.fixture
def drive() -> Iterator[MachineDriver]:
    driver = MachineDriver(max_buffered_requests=2, buffered_request_timeout_seconds=10.0)
    yield driver
    driver.machine.check_invariants()
