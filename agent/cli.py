"""`steersman agent`: settings, logging and signals around the agent."""

import asyncio
import functools
import logging
import os
import sys
import time

import uvloop

from agent.app import Agent
from agent.dialler import BalancerAccess
from agent.freed_memory import share_arenas
from agent.llama.threads import usable_cores
from agent.llama_loaded_model import EngineOutlet
from agent.llama_runtime import LlamaRuntime
from agent.metrics_service import CannotListen
from agent.settings import COMMAND, AgentSettings
from shared.log_output import set_level, write_logs_to_stderr
from shared.process_signals import reload_on_hangup, stop_on_signals
from shared.service_link import Supervision
from shared.service_manager import ServiceManager
from shared.settings_again import SettingsReload, SettingsSource
from shared.settings_sources import SettingsError

EXIT_FAILED = 1
EXIT_WRONG_SETTINGS = 2
SWITCH_SECONDS = 0.0005
"""How long a thread may keep the interpreter while others wait. The engine gives it up some fifteen times a step: with
Python's 5 ms, each step takes 0.1 s while another thread reads a big schema; with this, what it takes anyway."""

logger = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Run an agent until SIGTERM or SIGINT; returns the exit status.

    0: it left in order. 1: a part of it died, or its port is taken. 2: a wrong setting. A second signal ends the
    process at once with 128 plus its number.
    """
    source = SettingsSource(AgentSettings, COMMAND, arguments, os.environ)
    try:
        settings = source.first()
        token = settings.read_token()
        tls = settings.read_tls()
    except SettingsError as error:
        print(f"{COMMAND.program}: {error} ({COMMAND.help_pointer})", file=sys.stderr)
        return EXIT_WRONG_SETTINGS
    write_logs_to_stderr(settings.log_level, settings.log_format, os.environ)
    sys.setswitchinterval(SWITCH_SECONDS)
    share_arenas()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, BalancerAccess(token, tls), source))
    except CannotListen as error:
        print(f"{COMMAND.program}: {error}", file=sys.stderr)
        return EXIT_FAILED
    except Exception:
        logger.exception("the agent died")
        return EXIT_FAILED
    return 0


async def _serve(settings: AgentSettings, access: BalancerAccess, source: SettingsSource[AgentSettings]) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    log_level = SettingsReload(source, settings, lambda new: set_level(new.log_level), ["log_level"])
    supervision = Supervision(
        manager=ServiceManager.of(os.environ, os.getpid()),
        reload_steps=(log_level.step, functools.partial(_read_access_again, settings, access)),
    )
    if settings.has_access_files or source.may_change or supervision.manager is not None:
        reload_on_hangup(supervision.reload_asked)
    threads = settings.threads or usable_cores()

    def make_runtime(outlet: EngineOutlet) -> LlamaRuntime:
        return LlamaRuntime(
            *(settings.slots, threads, outlet, time.monotonic),
            prefix_store_bytes=settings.prefix_store_size,
            draft_tokens=settings.draft_tokens,
        )

    await Agent(settings, access, make_runtime, supervision).run(stop)


async def _read_access_again(settings: AgentSettings, access: BalancerAccess) -> None:
    """Token and certificates for the next dial, or none of them if one is refused."""
    if not settings.has_access_files:
        return
    try:
        token, tls = await asyncio.to_thread(lambda: (settings.read_token(), settings.read_tls()))
    except SettingsError as error:
        logger.error("the token and the trusted certificates stay what they were: %s", error)
    else:
        access.change(token, tls)
        logger.info("the token and the trusted certificates were read again")
