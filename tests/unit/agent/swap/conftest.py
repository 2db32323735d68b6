"""One driver a test; a proof that nobody closes holds a file open."""

from collections.abc import Iterator

import pytest

from tests.support.swap_driver import SwapDriver


@pytest.fixture
def driver() -> Iterator[SwapDriver]:
    one = SwapDriver()
    yield one
    assert len(one.open_proofs) <= 1, "a proof leaked"
