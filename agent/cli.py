"""`steersman agent`: settings, logging and signals around the agent."""

import asyncio
import functools
import logging
import os
import signal
import ssl
import sys
import time

import uvloop

from agent.app import Agent
from agent.dialler import BalancerAccess
from agent.freed_memory import share_arenas
from agent.llama.threads import usable_cores
from agent.llama_runtime import LlamaRuntime
from agent.settings import COMMAND, AgentSettings
from shared.settings_sources import SettingsError, load_settings

EXIT_FAILED = 1
EXIT_WRONG_SETTINGS = 2
EXIT_SIGNALLED = 128  # plus the signal's number, as shells count
SWITCH_SECONDS = 0.0005
"""How long a thread may keep the interpreter while others wait. The engine gives it up some fifteen times a step: with
Python's 5 ms, each step takes 0.1 s while another thread reads a big schema; with this, what it takes anyway."""

logger = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Run an agent until SIGTERM or SIGINT; returns the exit status.

    0: it left in order. 1: a part of it died. 2: a wrong setting. A second signal ends the process at once with 128
    plus its number.
    """
    try:
        settings = load_settings(AgentSettings, COMMAND, arguments, os.environ)
        token = settings.read_token()
        tls = settings.read_tls()
    except SettingsError as error:
        print(f"{COMMAND.program}: {error}", file=sys.stderr)
        return EXIT_WRONG_SETTINGS
    _log_to_stderr(settings.log_level)
    sys.setswitchinterval(SWITCH_SECONDS)
    share_arenas()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, token, tls))
    except Exception:
        logger.exception("the agent died")
        return EXIT_FAILED
    return 0


async def _serve(settings: AgentSettings, token: str | None, tls: ssl.SSLContext | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, functools.partial(_on_signal, number, stop))
    threads = settings.threads or usable_cores()
    access = BalancerAccess(token, tls)
    agent = Agent(settings, access, lambda outlet: LlamaRuntime(settings.slots, threads, outlet, time.monotonic))
    await agent.run(stop)


def _on_signal(number: int, stop: asyncio.Event) -> None:
    """The first signal asks, the second insists."""
    if stop.is_set():
        os._exit(EXIT_SIGNALLED + number)
    stop.set()


def _log_to_stderr(level: str) -> None:
    """Libraries speak from `warning` on, so that `debug` is about us."""
    logging.basicConfig(
        level=logging.WARNING,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        stream=sys.stderr,
        force=True,
    )
    for name in ("agent", "shared"):
        logging.getLogger(name).setLevel(level.upper())
