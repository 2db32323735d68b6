"""Whatever becomes of a request, its account is closed exactly once, with one outcome."""

import asyncio
from typing import Any

from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from balancer.request_account import RequestAccount
from balancer.request_record import Outcome
from shared.failures import Failure, FailureKind
from tests.support.account_driver import AccountDriver

STEPS = st.lists(
    st.sampled_from(
        ["admitted", "accept", "tokens", "end", "fail", "lost", "left", "slow", "failed", "abort", "answered", "error"]
    ),
    max_size=8,
)


LAST = st.sampled_from([None, asyncio.CancelledError, ZeroDivisionError])


@given(steps=STEPS, last=LAST)
def test_every_account_is_closed_once_with_one_outcome(steps: list[str], last: type[BaseException] | None) -> None:
    driver = AccountDriver()
    try:
        with driver.open() as account:
            for step in steps:
                _play(driver, account, step)
            if last is not None:
                raise last
    except (asyncio.CancelledError, ZeroDivisionError):
        pass
    record = driver.record
    assert isinstance(record.outcome, Outcome)
    assert (record.outcome in (Outcome.FAILED, Outcome.REFUSED)) == (record.failure is not None)
    assert record.ended_at >= record.arrived_at
    assert record.generated_tokens >= 0


def _play(driver: AccountDriver, account: RequestAccount, step: str) -> None:
    driver.now += 0.5
    if step == "admitted":
        account.admitted(driver.group)
    elif step in ("accept", "tokens", "end", "fail", "lost") and account.record.choices:
        plays: dict[str, Any] = {
            "accept": lambda: driver.accept(account),
            "tokens": lambda: driver.give(account, 2),
            "end": lambda: driver.end(account),
            "fail": lambda: driver.end(account, failure=Failure(FailureKind.PROMPT_TOO_LONG, "")),
            "lost": lambda: driver.end(account, failure=Failure(FailureKind.AGENT_LOST, "")),
        }
        plays[step]()
    elif step == "left":
        account.client_left()
    elif step == "slow":
        account.failed(FailureKind.SLOW_CONSUMER)
    elif step == "failed":
        account.failed(FailureKind.SHUTTING_DOWN)
    elif step == "abort":
        driver.group.abort()
    elif step in ("answered", "error"):
        account.answered(web.Response(status=200 if step == "answered" else 503))
