import asyncio

from balancer.change_signal import ChangeSignal


async def test_a_version_that_has_passed_is_told_at_once() -> None:
    signal = ChangeSignal()
    signal.bump()
    assert await signal.wait_changed(0) == 1


async def test_all_who_wait_are_woken_and_see_only_the_newest() -> None:
    signal = ChangeSignal()
    waiting = [asyncio.create_task(signal.wait_changed(0)) for _ in range(3)]
    await asyncio.sleep(0)
    for _ in range(5):
        signal.bump()
    assert await asyncio.gather(*waiting) == [5, 5, 5]


async def test_one_who_gives_up_disturbs_no_other() -> None:
    signal = ChangeSignal()
    leaver, stayer = (asyncio.create_task(signal.wait_changed(0)) for _ in range(2))
    await asyncio.sleep(0)
    leaver.cancel()
    await asyncio.sleep(0)
    signal.bump()
    assert await stayer == 1
    assert leaver.cancelled()
