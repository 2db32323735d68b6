"""Tasks that run as long as the process: when one ends by itself, the process stops with a clear word."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

SideTask = tuple[Coroutine[Any, Any, None], str]
"""What must run, and its name."""

_log = logging.getLogger(__name__)


class SideTaskDied(Exception):
    """A task that must run as long as the balancer has ended; the message names it."""


def start_side_tasks(tasks: asyncio.TaskGroup, side_tasks: Iterable[SideTask]) -> list[asyncio.Task[None]]:
    """All of them; who started them cancels them. One that ends before fails the group with SideTaskDied."""
    return [tasks.create_task(_must_not_end(coroutine, name), name=name) for coroutine, name in side_tasks]


async def _must_not_end(coroutine: Coroutine[Any, Any, None], name: str) -> None:
    """Raises SideTaskDied, whatever the coroutine ended with, and logs the cause; cancellation passes through."""
    try:
        await coroutine
    except Exception as error:
        _log.critical("the %s task died, so the balancer stops", name, exc_info=True)
        raise SideTaskDied(name) from error
    _log.critical("the %s task ended, which it never should, so the balancer stops", name)
    raise SideTaskDied(name)
