"""The real balancer through its own start-up path: inside the test's loop, or as a process by the `steersman` command.

async with running_balancer(max_buffered_requests=0) as balancer:
    ... balancer.inference_address, balancer.management_address, balancer.switchboard ...

async with BalancerProcess.started("--drain-timeout", "300ms") as process:
    ... process.inference_address ...; process.send(signal.SIGTERM); await process.wait_exit()
"""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from balancer.app import Balancer
from balancer.process_secrets import Secrets
from balancer.settings import BalancerSettings
from shared.service_link import Supervision
from shared.settings_sources import Address, parse_address
from tests.support.child_environment import child_environment

ROOT = Path(__file__).resolve().parents[2]
FREE_PORT = Address("127.0.0.1", 0)
DEADLINE_SECONDS = 30.0

# The entry point that the installed command has, so that the tree under test runs whatever is installed.
COMMAND = (sys.executable, "-c", "import sys; from shared.command_line import main; sys.exit(main())", "balancer")
_LISTENS = re.compile(r"""balancer\.listeners(?:: |","message":")(\w+) listens on ([^\s"]+)""")  # in either form


@asynccontextmanager
async def running_balancer(supervision: Supervision | None = None, /, **settings: Any) -> AsyncIterator[Balancer]:
    """A balancer on free loopback ports; stopped in order afterwards, with its records checked."""
    given = {
        "inference_addr": FREE_PORT,
        "management_addr": FREE_PORT,
        "compat_addr": FREE_PORT,
        "drain_timeout_seconds": 0.2,  # for what a test leaves open
        **settings,
    }
    parsed = BalancerSettings.model_validate(given)
    secrets = await asyncio.to_thread(Secrets.read, parsed)
    balancer = await Balancer.open(parsed, secrets, checks_every_event=True)
    stop = asyncio.Event()
    async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
        tasks.create_task(balancer.serve(stop, supervision), name="balancer under test")
        await balancer.is_serving.wait()  # cancelled when it cannot start
        try:
            yield balancer
            balancer.switchboard.check_invariants()
        finally:
            stop.set()
            limit.reschedule(asyncio.get_running_loop().time() + DEADLINE_SECONDS)


async def ends_of_starts(*starts: tuple[str, ...]) -> list[tuple[int, "BalancerProcess"]]:
    """Exit status and process of each start, all begun at the same time; `starts` are their flags."""

    async def end_of(flags: tuple[str, ...]) -> tuple[int, BalancerProcess]:
        async with BalancerProcess.launched(*flags) as process:
            return await process.wait_exit(), process

    return list(await asyncio.gather(*map(end_of, starts)))


class ProcessEndedEarly(Exception):
    """It ended before it listened; what it logged follows."""


@dataclass
class BalancerProcess:
    """Its log is read all the time, so that it never blocks on it."""

    process: asyncio.subprocess.Process
    addresses: dict[str, Address] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    _grown: asyncio.Condition = field(default_factory=asyncio.Condition)
    _is_over: bool = False

    @classmethod
    @asynccontextmanager
    async def started(cls, *flags: str, **environment: str) -> AsyncIterator["BalancerProcess"]:
        """Listening on free loopback ports; killed at the end if it still runs. Raises ProcessEndedEarly."""
        async with cls.launched(*flags, **environment) as running:
            await running.wait_line("compat listens on")  # the last one
            yield running

    @classmethod
    @asynccontextmanager
    async def launched(cls, *flags: str, **environment: str) -> AsyncIterator["BalancerProcess"]:
        """Started, in whatever state; addresses are free loopback ports unless `flags` name some."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *("--inference-addr", "127.0.0.1:0", "--management-addr", "127.0.0.1:0", "--compat-addr", "127.0.0.1:0"),
            *flags,
            cwd=ROOT,
            env=child_environment(**environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        running = cls(process)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(running._read_log(), name="log of the balancer")
            try:
                yield running
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()

    @property
    def inference_address(self) -> Address:
        return self.addresses["inference"]

    @property
    def compat_address(self) -> Address:
        return self.addresses["compat"]

    @property
    def management_address(self) -> Address:
        return self.addresses["management"]

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def wait_exit(self) -> int:
        """Its exit status, negative for a signal that it did not handle."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            status = await self.process.wait()
            async with self._grown:
                await self._grown.wait_for(lambda: self._is_over)
            return status

    async def wait_line(self, part: str) -> None:
        """Wait until a line with `part` was logged. Raises ProcessEndedEarly."""
        async with asyncio.timeout(DEADLINE_SECONDS), self._grown:
            await self._grown.wait_for(lambda: self._is_over or any(part in line for line in self.lines))
        if not any(part in line for line in self.lines):
            raise ProcessEndedEarly(self.log)

    def resident_bytes(self) -> int:
        """Memory that the process holds now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        (kibibytes,) = re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        return int(kibibytes) * 1024

    async def _read_log(self) -> None:
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            line = raw.decode().rstrip("\n")
            async with self._grown:
                self.lines.append(line)
                found = _LISTENS.search(line)
                if found is not None:
                    self.addresses[found[1]] = parse_address(found[2].rstrip(","))
                self._grown.notify_all()
        async with self._grown:
            self._is_over = True
            self._grown.notify_all()
