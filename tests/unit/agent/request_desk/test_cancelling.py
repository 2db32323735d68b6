"""A client that leaves, or a link that is lost: the slot is free when the member has really ended, and not before."""

from agent.core.commands import Cancel as CancelInEngine
from agent.core.events import MemberEnded
from shared.generation import FinishReason, Usage
from shared.messages_to_agent import Cancel
from tests.support.desk_driver import DeskDriver
from tests.support.fake_model import step_report


async def test_a_running_member_keeps_its_slot_until_the_engine_confirms_the_cancel(driver: DeskDriver) -> None:
    key = await driver.start(1)
    driver.desk.cancel(1, Cancel(member=1, attempt=0))
    assert driver.model.commands[-1] == CancelInEngine(key)
    assert driver.desk.slots_in_use == 1
    driver.desk.step(step_report(MemberEnded(key, FinishReason.CANCELLED, Usage(prompt_tokens=5))))
    assert driver.desk.slots_in_use == 0
    assert [end.finish_reason for end in driver.ends()] == [FinishReason.CANCELLED]


async def test_a_member_whose_prompt_is_read_ends_at_once_when_cancelled(driver: DeskDriver) -> None:
    driver.worker.holds = True
    await driver.start(1)
    driver.desk.cancel(1, Cancel(member=1, attempt=0))
    assert driver.desk.slots_in_use == 0
    driver.worker.release()
    await driver.settle()
    assert [end.finish_reason for end in driver.ends()] == [FinishReason.CANCELLED]
    assert len(driver.to(1)) == 1, "an answer after the end"
    assert driver.model.commands == []


async def test_a_prompt_that_nobody_waits_for_leaves_the_queue_unread(driver: DeskDriver) -> None:
    driver.worker.holds = True
    await driver.start(1)
    driver.desk.cancel(1, Cancel(member=1, attempt=0))
    await driver.settle()
    driver.worker.release()
    assert driver.worker.cancelled == 1


async def test_cancelling_what_is_unknown_or_another_attempt_does_nothing(driver: DeskDriver) -> None:
    await driver.start(1)
    driver.desk.cancel(1, Cancel(member=2, attempt=0))
    driver.desk.cancel(1, Cancel(member=1, attempt=1))
    driver.desk.cancel(2, Cancel(member=1, attempt=0))
    assert len(driver.model.commands) == 1


async def test_a_lost_link_cancels_its_members_and_no_others(driver: DeskDriver) -> None:
    first, second = await driver.start(1, link=1), await driver.start(1, link=2)
    driver.desk.link_lost(1)
    assert driver.model.commands[-1] == CancelInEngine(first)
    assert CancelInEngine(second) not in driver.model.commands
    assert driver.desk.slots_in_use == 2, "the engine still works on it"
