"""The limit of open files goes up, never down, and not past the system's own."""

import resource
from collections.abc import Iterator

import pytest

from balancer.open_files import MOST_OPEN_FILES, allow_many_open_files


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_low_limit_is_raised_once() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    raised = allow_many_open_files()
    assert raised == (MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_OPEN_FILES))
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, hard)
    assert allow_many_open_files() == raised
