"""A side task that ends takes the process with it, and says which it was; one that is cancelled does not."""

import asyncio
import logging

import pytest

from balancer.side_tasks import SideTaskDied, start_side_tasks


async def for_ever() -> None:
    await asyncio.Event().wait()


async def dies() -> None:
    raise RuntimeError("planted")


async def ends() -> None:
    pass


async def test_one_that_dies_ends_the_group_and_its_cause_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL), pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as tasks:
            others = start_side_tasks(tasks, [(for_ever(), "patience"), (dies(), "short life")])
    assert caught.group_contains(SideTaskDied, match="^short life$")
    assert others[0].cancelled()
    assert "the short life task died" in caplog.text
    assert "planted" in caplog.text


async def test_one_that_just_ends_does_so_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL), pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as tasks:
            start_side_tasks(tasks, [(ends(), "short life")])
    assert caught.group_contains(SideTaskDied, match="^short life$")
    assert "the short life task ended, which it never should" in caplog.text


async def test_those_that_are_cancelled_are_named_and_end_quietly(caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.TaskGroup() as tasks:
        started = start_side_tasks(tasks, [(for_ever(), "one"), (for_ever(), "other")])
        assert [task.get_name() for task in started] == ["one", "other"]
        await asyncio.sleep(0)
        for task in started:
            task.cancel()
    assert caplog.text == ""
