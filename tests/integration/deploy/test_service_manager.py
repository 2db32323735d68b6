"""What keeps an agent's pings coming and what stops them, and a balancer that waits: over a real datagram socket."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from shared.service_link import Supervision
from shared.service_manager import ServiceManager
from tests.support.linked_agent import PROMPT, B, LinkedAgent, linked_agent, serving
from tests.support.notify_listener import NotifyListener, notify_listener
from tests.support.running_balancer import running_balancer
from tests.support.scripted_balancer import ScriptedBalancer, generate

WATCHDOG_SECONDS = 0.2


def supervision(manager: NotifyListener, watchdog_seconds: float | None = WATCHDOG_SECONDS) -> Supervision:
    environment = {"NOTIFY_SOCKET": manager.address}
    if watchdog_seconds is not None:
        environment["WATCHDOG_USEC"] = str(int(watchdog_seconds * 1_000_000))
    return Supervision(manager=ServiceManager.of(environment, 1))


@asynccontextmanager
async def watched_agent(folder: Path) -> AsyncIterator[tuple[ScriptedBalancer, NotifyListener, LinkedAgent]]:
    async with notify_listener(folder) as manager, ScriptedBalancer() as balancer:
        watched = supervision(manager)
        async with linked_agent(balancer, supervision=watched) as agent:
            yield balancer, manager, agent
        assert watched.manager is not None
        watched.manager.notify_socket.close()


async def pings_so_far(manager: NotifyListener) -> int:
    """Those included that lie in the socket."""
    for _ in range(10):
        await asyncio.sleep(0)
    return manager.lines.count("WATCHDOG=1")


async def test_an_engine_that_hangs_stops_the_pings_and_one_that_goes_on_brings_them_back(tmp_path: Path) -> None:
    async with watched_agent(tmp_path) as (balancer, manager, agent):
        connection = await serving(balancer)
        await manager.wait_line("READY=1")
        idle = manager.lines.count("WATCHDOG=1")
        await manager.wait_line("WATCHDOG=1", idle + 2)  # an idle engine has to do nothing
        agent.runtime.may_decode.clear()
        await connection.send(generate(1, PROMPT, 30))
        await manager.wait_status("1/3 slots busy")
        await asyncio.sleep(WATCHDOG_SECONDS)  # within half of it pings are still due
        before = await pings_so_far(manager)
        await asyncio.sleep(2 * WATCHDOG_SECONDS)  # the event loop is well
        assert await pings_so_far(manager) == before, "the manager would never restart this agent"
        agent.runtime.may_decode.set()
        await connection.wait_end(1)
        await manager.wait_line("WATCHDOG=1", before + 1)


async def test_a_load_raises_the_limit_says_how_far_it_is_and_restores_it(tmp_path: Path) -> None:
    async with watched_agent(tmp_path) as (balancer, manager, agent):
        connection = await serving(balancer)
        await manager.wait_line("READY=1")
        agent.runtime.may_load.clear()
        agent.runtime.load_fraction = 0.25
        await connection.set_state(2, B)
        await manager.wait_line("WATCHDOG_USEC=600000000")
        await manager.wait_status("loading a model: 25 %")
        restored = manager.lines.count("WATCHDOG_USEC=200000")
        agent.runtime.may_load.set()
        await manager.wait_line("WATCHDOG_USEC=200000", restored + 1)
        await manager.wait_status("b.gguf, 0/3 slots busy")


async def test_a_loop_that_hangs_sends_nothing(tmp_path: Path) -> None:
    async with watched_agent(tmp_path) as (_, manager, _agent):
        await manager.wait_line("WATCHDOG=1", 2)
        before = await pings_so_far(manager)
        time.sleep(3 * WATCHDOG_SECONDS)  # the test shares its loop with the agent
        # One may have been due just before, and one is due now; a thread of its own would have sent six.
        assert await pings_so_far(manager) <= before + 2


async def test_a_balancer_that_waits_for_its_store_asks_for_time_and_is_not_ready(tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/no-redis.sock"
    async with notify_listener(tmp_path) as manager:
        watched = supervision(manager, None)
        async with running_balancer(watched, state_database=nowhere):
            await manager.wait_status("waiting for the state database; the log says why")
            await manager.wait_line("EXTEND_TIMEOUT_USEC=30000000")
        await manager.wait_line("STOPPING=1")
        assert "READY=1" not in manager.lines
        assert str(tmp_path) not in "".join(manager.lines), "every user of the host may read a status"
        assert watched.manager is not None
        watched.manager.notify_socket.close()


async def test_a_manager_that_is_gone_or_does_not_read_holds_nobody_up(tmp_path: Path) -> None:
    async with notify_listener(tmp_path) as manager:
        watched = supervision(manager)
        assert watched.manager is not None
        (tmp_path / "notify").unlink()
        async with running_balancer(watched):  # is serving, which the block waits for
            pass
        assert "READY=1" not in manager.lines
        watched.manager.notify_socket.close()
