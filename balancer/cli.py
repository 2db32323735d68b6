"""`steersman balancer`: settings in, one process that serves until it is told to stop, an exit status out."""

import asyncio
import gc
import logging
import os
import signal
import sys
from typing import Final

import uvloop

from balancer.access_files import AccessFileRefused
from balancer.app import Balancer, SideTaskDied
from balancer.desired_state_store import StoreRefused
from balancer.listeners import CannotListen
from balancer.log_output import write_logs_to_stderr
from balancer.open_files import allow_many_open_files
from balancer.process_secrets import Secrets
from balancer.settings import COMMAND, BalancerSettings
from shared.settings_sources import SettingsError, load_settings

EXIT_FAILED: Final = 1
EXIT_WRONG_SETTINGS: Final = 2
COLLECT_AFTER_OBJECTS: Final = 20_000
EXIT_SIGNALLED: Final = 128  # plus the signal's number, as shells count

_STOPPING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Run a balancer with the flags of `steersman balancer`; returns the exit status of the process.

    0: stopped in order by one SIGTERM or SIGINT. 1: it could not listen, or a part of it died. 2: a wrong setting.
    A second signal ends the process at once with 128 plus its number.
    """
    try:
        settings = load_settings(BalancerSettings, COMMAND, arguments, os.environ)
        write_logs_to_stderr(settings.log_level)
        secrets = Secrets.read(settings)
        allow_many_open_files()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(settings, secrets))
    except (SettingsError, AccessFileRefused, StoreRefused) as refused:
        _say(f"{refused} (`{COMMAND.program} --help` lists the flags)")
        return EXIT_WRONG_SETTINGS


async def _serve(settings: BalancerSettings, secrets: Secrets) -> int:
    stop = asyncio.Event()
    read_again = asyncio.Event()
    _stop_on_signals(stop)
    if settings.has_access_files:  # else a hang-up ends it like any process of a terminal that is gone
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, read_again.set)
    balancer = await Balancer.open(settings, secrets)
    _collect_garbage_less_often()
    status = 0
    try:
        await balancer.serve(stop, read_again)
    except* CannotListen as refused:
        _say(str(refused.exceptions[0]))
        status = EXIT_FAILED
    except* SideTaskDied as died:  # why is in the log
        _say(f"stopped, because a part of it died: {', '.join(str(one) for one in died.exceptions)}")
        status = EXIT_FAILED
    return status


def _collect_garbage_less_often() -> None:
    """Modules and settings stay for ever: keep them out of every collection. A relayed token makes a few short-lived
    objects and no cycles, so Python's threshold of 700 would start dozens of collections a second for nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER_OBJECTS)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in _STOPPING_SIGNALS:
        loop.add_signal_handler(number, _on_signal, number, stop)


def _on_signal(number: signal.Signals, stop: asyncio.Event) -> None:
    if not stop.is_set():
        _log.info("%s received", number.name)
        stop.set()
        return
    # At once means: no clean-up that could hang. Stores write whole files or nothing, agents see their links break.
    _log.warning("%s received again: ending now", number.name)
    logging.shutdown()
    os._exit(EXIT_SIGNALLED + number)


def _say(sentence: str) -> None:
    print(f"{COMMAND.program}: {sentence}", file=sys.stderr)
