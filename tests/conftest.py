"""What holds for every test: no blocked loop, no hang, no skipped model test, and an eye on the time.

Asyncio's debug mode and "warnings are errors" are set in pyproject.toml.
"""

import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from tests.support import budgets
from tests.support.redis_server import redis_server

__all__ = ["redis_server"]  # a fixture for all folders

_TESTS = Path(__file__).resolve().parent
_BUDGETS = budgets.current()
_SPENT_SECONDS: pytest.StashKey[dict[str, float]] = pytest.StashKey()

# `nohup` and a shell's `&` have these ignored, which the processes that the tests start and signal would inherit.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile(
    "steersman",
    max_examples=_BUDGETS.hypothesis_examples,
    deadline=None,  # a busy machine is not a bug
    # What is red must be red again; new ground is for the long form.
    derandomize=_BUDGETS.form == "short",
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("steersman")


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[BlockBuster]:
    """Our packages may not block a running loop: file, socket, lock and sleep calls raise BlockingError.

    A test that must allow one names it: `no_blocking_calls.functions["os.stat"].can_block_in(file, name)`.
    """
    with blockbuster_ctx(["agent", "balancer", "shared"]) as guard:
        yield guard


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SPENT_SECONDS] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_BUDGETS.test_limit_seconds(_folder_of(item.path))))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A model test that is skipped is a failed one: green must mean that the model ran."""
    report = yield
    spent = item.config.stash[_SPENT_SECONDS]
    folder = _folder_of(item.path)
    spent[folder] = spent.get(folder, 0.0) + report.duration
    if report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("model") is not None:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} needs the model and was skipped; run `make install`"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for folder, seconds in sorted(config.stash[_SPENT_SECONDS].items()):
        allowed = _BUDGETS.seconds_per_folder[folder]
        verdict = "" if seconds <= allowed or _BUDGETS.form == "long" else "  OVER BUDGET"
        terminalreporter.write_line(f"tests/{folder}: {seconds:.1f} s of {allowed:.0f} s{verdict}")


def _folder_of(path: Path) -> str:
    return path.relative_to(_TESTS).parts[0]
