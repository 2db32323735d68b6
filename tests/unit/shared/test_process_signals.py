"""The first signal asks, and says so; the second ends the process, which only a process of its own can show."""

import asyncio
import logging
import os
import signal

import pytest

from shared.process_signals import reload_on_hangup, stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_asks_to_stop(number: signal.Signals, caplog: pytest.LogCaptureFixture) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    try:
        with caplog.at_level(logging.INFO):
            os.kill(os.getpid(), number)
            async with asyncio.timeout(10):
                await stop.wait()
    finally:
        for one in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(one)
    assert f"{number.name} received" in caplog.text


async def test_each_hang_up_asks_for_a_reload() -> None:
    asked = asyncio.Event()
    reload_on_hangup(asked)
    try:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            async with asyncio.timeout(10):
                await asked.wait()
            asked.clear()
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
