"""A real balancer and a real agent under a service manager: what arrives on its socket, from the start to the stop.

Where the tools are there both run under what the units forbid the kernel to do for them, so an answer shows that the
filters leave a model room to be loaded and to compute.
"""

import asyncio
import ctypes
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.generate_env import FOLDER
from tests.support.fleet_process import FleetProcess
from tests.support.notify_listener import NotifyListener, notify_listener
from tests.support.running_fleet import RunningFleet
from tests.support.systemd_tools import ANALYZE, need
from tests.support.tiny_model import TinyModel, tiny_model_path

WATCHDOG = {"WATCHDOG_USEC": "400000"}
ANYWHERE = ("--inference-addr", "127.0.0.1:0", "--management-addr", "127.0.0.1:0", "--compat-addr", "127.0.0.1:0")


def sandbox(unit: str) -> tuple[str, ...]:
    """What comes before a command line that is to run as the unit lets it."""
    if shutil.which(ANALYZE) is None:
        return ()
    return (sys.executable, "-m", "tests.support.unit_sandbox", str(FOLDER / "systemd" / unit))


@dataclass
class Supervised:
    """Both processes, and what each told its manager."""

    fleet: RunningFleet
    balancer: NotifyListener
    agent: NotifyListener
    environment_file: Path
    model: Path


@asynccontextmanager
async def supervised(folder: Path) -> AsyncIterator[Supervised]:
    environment_file = folder / "both.env"
    environment_file.write_text("# nothing yet\n")
    async with AsyncExitStack() as stack:
        # One manager listens at a path, the other at an abstract name.
        at_balancer = await stack.enter_async_context(notify_listener(folder))
        at_agent = await stack.enter_async_context(notify_listener(f"@steersman-test-{folder.name}-{id(folder)}"))
        balancer = FleetProcess(
            folder / "balancer.log",
            "balancer",
            *ANYWHERE,
            inside=sandbox("steersman-balancer.service"),
            NOTIFY_SOCKET=at_balancer.address,
            STEERSMAN_BALANCER_ENVIRONMENT_FILES=str(environment_file),
            **WATCHDOG,
        )
        stack.callback(balancer.end)
        await at_balancer.wait_line("READY=1")
        fleet = RunningFleet(folder, balancer)
        agent = FleetProcess(
            folder / "agent.log",
            *("agent", "--management-addr", str(fleet.management), "--slots", "2", "--threads", "1"),
            inside=sandbox("steersman-agent@.service"),
            NOTIFY_SOCKET=at_agent.address,
            STEERSMAN_AGENT_ENVIRONMENT_FILES=str(environment_file),
            **WATCHDOG,
        )
        stack.callback(agent.end)
        fleet.agents.append(agent)
        model = await asyncio.to_thread(tiny_model_path, folder, TinyModel(seed=5))  # while both start
        yield Supervised(fleet, at_balancer, at_agent, environment_file, model)


async def test_both_tell_their_manager_how_they_start_serve_reload_and_stop(tmp_path: Path) -> None:
    async with supervised(tmp_path) as both:
        await check_the_start(both)
        await check_pings(both)
        await check_a_reload(both)
        await check_the_stop(both)


async def check_the_start(both: Supervised) -> None:
    # Ready without a model: its settings are valid and it dials.
    await both.agent.wait_line("READY=1")
    await both.agent.wait_status("no model, 0/2 slots busy, linked to 1 balancer")
    await both.balancer.wait_status("1 agent, 0/0 slots busy, 0 waiting, revision 0: the desired state names no model")
    await asyncio.to_thread(both.fleet.serve, both.model)
    answer = await both.fleet.ask("a story", max_tokens=4)
    assert answer.usage["content_tokens"] == 4, "the unit's filters keep the engine from computing"
    issue = "issue: UnableToFindChatTemplate"  # the tiny model has none
    await both.agent.wait_status(f"{both.model.name}, 0/2 slots busy, {issue}, linked to 1 balancer")
    await both.balancer.wait_status("1 agent, 0/2 slots busy, 0 waiting, revision 1")


async def check_pings(both: Supervised) -> None:
    for manager in (both.balancer, both.agent):
        seen = manager.lines.count("WATCHDOG=1")
        await manager.wait_line("WATCHDOG=1", seen + 2)
        assert manager.lines.count("READY=1") == 1


async def check_a_reload(both: Supervised) -> None:
    both.environment_file.write_text("STEERSMAN_BALANCER_LOG_LEVEL=debug\nSTEERSMAN_AGENT_LOG_LEVEL=debug\n")
    for manager, process in ((both.balancer, both.fleet.balancer), (both.agent, both.fleet.agents[0])):
        process.send(signal.SIGHUP)
        await manager.wait_line("READY=1", 2)
        reloading, ready = manager.lines.index("RELOADING=1"), len(manager.lines) - manager.lines[::-1].index("READY=1")
        assert reloading < ready
        assert "settings were read again: log_level debug" in process.log
        assert process.exit_status is None


async def check_the_stop(both: Supervised) -> None:
    for manager, process in ((both.agent, both.fleet.agents[0]), (both.balancer, both.fleet.balancer)):
        process.send(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait_exit) == 0, process.log
        await manager.wait_line("STOPPING=1")
        (stopping,) = [message for message in manager.messages if "STOPPING=1" in message.lines]
        # Longer than the drain of 60 s, whatever the unit's TimeoutStopSec says.
        assert any(line in stopping.lines for line in ("EXTEND_TIMEOUT_USEC=90000000", "EXTEND_TIMEOUT_USEC=120000000"))


def test_the_sandbox_of_these_tests_is_there() -> None:
    """So that a run without it does not look like one with it."""
    need(ANALYZE)
    assert sandbox("steersman-balancer.service")
    assert ctypes.CDLL("libseccomp.so.2")  # systemd itself needs it
