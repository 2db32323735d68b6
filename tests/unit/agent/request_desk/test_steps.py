"""What a step of the engine brings goes out as one frame for each link that it concerns."""

from agent.core.events import MemberEnded, PromptProgress, TokensCommitted
from agent.request_desk import MemberKey
from shared.generation import Channel, FinishReason, Usage
from shared.messages_from_agent import MemberEnd, TokenFrame
from tests.support.desk_driver import DeskDriver
from tests.support.fake_model import step_report


async def test_a_step_becomes_one_frame_for_each_link(driver: DeskDriver) -> None:
    first, second = await driver.start(1, link=1), await driver.start(1, link=2)
    driver.sent.clear()
    usage = Usage(prompt_tokens=5, content_tokens=1)
    driver.desk.step(
        step_report(
            TokensCommitted(first, 0, (42,), "a", Channel.CONTENT),
            TokensCommitted(second, 0, (43,), "b", Channel.CONTENT),
            MemberEnded(first, FinishReason.STOP, usage),
        )
    )
    (one,), (other,) = driver.to(1), driver.to(2)
    assert isinstance(one, TokenFrame)
    assert [item.token_ids for item in one.items] == [(42,)]
    assert one.ends == (MemberEnd(1, 0, FinishReason.STOP, usage, None),)
    assert isinstance(other, TokenFrame)
    assert [item.text for item in other.items] == ["b"]
    assert driver.slots[-1] == 1


async def test_progress_is_an_item_without_tokens(driver: DeskDriver) -> None:
    key = await driver.start(1)
    driver.desk.step(step_report(PromptProgress(key, 32)))
    frame = driver.to(1)[-1]
    assert isinstance(frame, TokenFrame)
    assert [item.token_ids for item in frame.items] == [()]


async def test_a_step_that_concerns_nobody_sends_nothing(driver: DeskDriver) -> None:
    driver.desk.step(step_report(MemberEnded(MemberKey(1, 99, 0), FinishReason.STOP, Usage())))
    driver.desk.step(step_report())
    assert driver.sent == []
    assert driver.slots == []


async def test_what_stopped_a_member_is_told_with_its_end(driver: DeskDriver) -> None:
    key = await driver.start(1)
    driver.desk.step(step_report(MemberEnded(key, FinishReason.STOP, Usage(), matched_stop="END")))
    assert [end.matched_stop for end in driver.ends()] == ["END"]
