"""Who is refused, what running members still need, and whose prompt is worth waiting for."""

import pytest

from agent.core.admission import (
    WORTH_AWAITING_TOKENS,
    cells_spoken_for,
    prefix_to_await,
    refusal,
    still_awaits,
)
from agent.core.backend import BackendLimits
from agent.core.commands import Submit
from agent.core.sequence import AwaitedPrefix, MemberSequence, Phase
from shared.failures import FailureKind
from shared.generation import SamplingParameters
from tests.support.scripted_backend import GreedySampler

LIMITS = BackendLimits(256, 32, 4, 100, 1000, True)
LONG = list(range(1, 51))


def request(prompt: list[int], *, arrival: int = 1) -> Submit:
    return Submit(arrival, tuple(prompt), 5, SamplingParameters(), 0, arrival)


def running(prompt: list[int], *, arrival: int, sequence_id: int | None, evaluated: int = 0) -> MemberSequence:
    sequence = MemberSequence.of(request(prompt, arrival=arrival), GreedySampler())
    sequence.phase, sequence.sequence_id, sequence.evaluated = Phase.RUNNING, sequence_id, evaluated
    return sequence


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ([], FailureKind.EMPTY_PROMPT),
        ([1] * 100, FailureKind.PROMPT_TOO_LONG),
        ([1000], FailureKind.INVALID_REQUEST),
        ([-1], FailureKind.INVALID_REQUEST),
    ],
)
def test_what_can_never_run_is_refused_with_its_own_word(prompt: list[int], kind: FailureKind) -> None:
    failure = refusal(request(prompt), LIMITS)
    assert failure is not None
    assert failure.kind is kind


def test_the_longest_prompt_that_leaves_room_for_a_token_is_taken() -> None:
    assert refusal(request([1] * 99), LIMITS) is None


def test_a_prompt_as_long_as_the_pool_is_refused_though_the_limit_were_larger() -> None:
    limits = BackendLimits(64, 32, 4, 100, 1000, True)
    failure = refusal(request([1] * 64), limits)
    assert failure is not None
    assert "63" in failure.message


def test_cells_that_will_be_shared_are_spoken_for_once() -> None:
    owner = running(LONG, arrival=1, sequence_id=0, evaluated=10)
    waiter = running([*LONG, 7, 8], arrival=2, sequence_id=None)
    waiter.awaits = AwaitedPrefix(owner.key, 50)
    assert cells_spoken_for([owner, waiter]) == 40 + 2


def test_the_longest_shared_prompt_that_is_still_to_come_is_awaited() -> None:
    short = running(LONG[:30], arrival=1, sequence_id=0)
    long = running([*LONG[:40], 999], arrival=2, sequence_id=1)
    mine = running(LONG, arrival=3, sequence_id=None)
    assert prefix_to_await(mine, 0, [short, long, mine]) == AwaitedPrefix(2, 40)


def test_of_an_equal_prompt_all_but_the_last_token_is_awaited() -> None:
    other = running(LONG, arrival=1, sequence_id=0)
    assert prefix_to_await(running(LONG, arrival=2, sequence_id=None), 0, [other]) == AwaitedPrefix(1, 49)


@pytest.mark.parametrize(("gain", "waits"), [(WORTH_AWAITING_TOKENS - 1, False), (WORTH_AWAITING_TOKENS, True)])
def test_a_wait_must_be_worth_it(gain: int, waits: bool) -> None:
    other = running([*LONG[: 10 + gain], 999], arrival=1, sequence_id=0)
    mine = running(LONG, arrival=2, sequence_id=None)
    assert (prefix_to_await(mine, 10, [other]) is not None) is waits


def test_what_is_evaluated_already_is_matched_not_awaited() -> None:
    other = running(LONG, arrival=1, sequence_id=0, evaluated=49)
    assert prefix_to_await(running([*LONG, 3], arrival=2, sequence_id=None), 0, [other]) == AwaitedPrefix(1, 50)
    other = running([*LONG[:30], 999], arrival=1, sequence_id=0, evaluated=30)
    assert prefix_to_await(running(LONG, arrival=2, sequence_id=None), 0, [other]) is None


def test_no_two_members_await_each_other() -> None:
    elder, younger = (running(LONG, arrival=arrival, sequence_id=None) for arrival in (1, 2))
    assert prefix_to_await(elder, 0, [elder, younger]) is None
    assert prefix_to_await(younger, 0, [elder, younger]) is not None


def test_the_wait_ends_when_the_prefix_is_there_or_its_owner_is_gone() -> None:
    owner = running(LONG, arrival=1, sequence_id=0, evaluated=39)
    mine = running(LONG, arrival=2, sequence_id=None)
    mine.awaits = AwaitedPrefix(1, 40)
    assert still_awaits(mine, owner)
    owner.evaluated = 40
    assert not still_awaits(mine, owner)
    owner.evaluated, owner.phase = 0, Phase.SET_ASIDE
    assert not still_awaits(mine, owner)
    assert not still_awaits(mine, None)
