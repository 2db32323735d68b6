"""A switchboard with recording links and a clock that stands still."""

import pytest

from tests.support.switchboard_driver import SwitchboardDriver


@pytest.fixture
def drive() -> SwitchboardDriver:
    return SwitchboardDriver()
