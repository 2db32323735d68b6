"""What arrives is taken, told busy or refused, and takes a slot from then on."""

import asyncio

from agent.core.commands import Submit
from agent.core.events import MemberEnded
from agent.request_desk import MemberKey
from shared.failures import FailureKind
from shared.generation import FinishReason, Usage
from shared.messages_from_agent import Accepted, Busy, MemberEnd, Refused, TokenFrame
from tests.support.desk_driver import SAMPLING, DeskDriver, request
from tests.support.fake_model import step_report


async def test_a_request_is_accepted_with_its_length_and_goes_to_the_engine(driver: DeskDriver) -> None:
    key = await driver.start(1, priority=3)
    assert driver.to(1) == [Accepted(member=1, attempt=0, prompt_tokens=5)]
    (command,) = driver.model.commands
    assert isinstance(command, Submit)
    assert (command.key, len(command.prompt), command.max_tokens) == (key, 5, 5)
    assert (command.sampling, command.seed, command.priority) == (SAMPLING, 9, 3)
    assert driver.slots == [1]


async def test_arrival_numbers_follow_arrival_not_preparation(driver: DeskDriver) -> None:
    driver.worker.holds = True
    driver.desk.generate(1, request(1))
    driver.desk.generate(2, request(1))
    await driver.settle()
    driver.worker.held.reverse()
    driver.worker.release()
    await driver.settle()
    arrivals = {c.key: c.arrival for c in driver.model.commands if isinstance(c, Submit)}
    assert arrivals[MemberKey(1, 1, 0)] < arrivals[MemberKey(2, 1, 0)]


async def test_a_request_beyond_the_slots_is_told_busy(driver: DeskDriver) -> None:
    await driver.start(1)
    await driver.start(2)
    await driver.start(3)
    assert driver.to(1)[-1] == Busy(member=3, attempt=0)
    assert driver.desk.slots_in_use == 2


async def test_a_slot_is_taken_while_the_prompt_is_read(driver: DeskDriver) -> None:
    driver.worker.holds = True
    await driver.start(1)
    await driver.start(2)
    await driver.start(3)
    assert driver.desk.slots_in_use == 2
    assert driver.to(1) == [Busy(member=3, attempt=0)]


async def test_a_closed_desk_and_one_without_a_model_are_busy(driver: DeskDriver) -> None:
    driver.desk.set_open(False)
    await driver.start(1)
    driver.desk.set_open(True)
    driver.desk.use(None)
    await driver.start(2)
    assert driver.to(1) == [Busy(member=1, attempt=0), Busy(member=2, attempt=0)]
    assert driver.slots == []


async def test_a_request_that_is_wrong_is_refused_and_gives_its_slot_back(driver: DeskDriver) -> None:
    await driver.start(1, prompt="")
    (refused,) = driver.to(1)
    assert isinstance(refused, Refused)
    assert refused.kind is FailureKind.EMPTY_PROMPT
    assert driver.slots == [1, 0]
    assert driver.model.commands == []


async def test_the_same_member_twice_is_one_member(driver: DeskDriver) -> None:
    await driver.start(1)
    await driver.start(1)
    assert driver.desk.slots_in_use == 1
    assert len(driver.model.commands) == 1


async def test_another_attempt_of_a_member_is_another_request(driver: DeskDriver) -> None:
    await driver.start(1)
    driver.desk.generate(1, request(1, attempt=1))
    await driver.settle()
    assert driver.desk.slots_in_use == 2


async def test_a_request_for_no_tokens_is_accepted_and_ends_at_once(driver: DeskDriver) -> None:
    await driver.start(1, max_tokens=0)
    accepted, frame = driver.to(1)  # a frame for each piece of it: together they might be too large for one
    assert isinstance(accepted, Accepted)
    end = MemberEnd(1, 0, FinishReason.LENGTH, Usage(prompt_tokens=5), None)
    assert frame == TokenFrame((), (end,))
    assert driver.slots == [1, 0]


async def test_waiting_until_idle_ends_when_the_last_member_does(driver: DeskDriver) -> None:
    await driver.desk.wait_idle()
    key = await driver.start(1)
    waiting = asyncio.create_task(driver.desk.wait_idle())
    await driver.settle()
    assert not waiting.done()
    driver.desk.step(step_report(MemberEnded(key, FinishReason.STOP, Usage())))
    await waiting
