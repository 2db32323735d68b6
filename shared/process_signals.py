"""How a process of ours takes signals: the first SIGTERM or SIGINT asks it to stop, the second insists, and SIGHUP asks
for a reload."""

import asyncio
import logging
import os
import signal
from typing import Final

EXIT_SIGNALLED: Final = 128  # plus the signal's number, as shells count

_STOPPING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger(__name__)


def stop_on_signals(stop: asyncio.Event) -> None:
    """From now on, in the loop that runs."""
    loop = asyncio.get_running_loop()
    for number in _STOPPING_SIGNALS:
        loop.add_signal_handler(number, take_stopping_signal, number, stop)


def reload_on_hangup(reload_asked: asyncio.Event) -> None:
    """From now on, in the loop that runs. Only where there is something to reload: else a hang-up ends the process like
    any of a terminal that is gone."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_asked.set)


def take_stopping_signal(number: signal.Signals, stop: asyncio.Event) -> None:
    """Sets `stop`; once that is set, it ends the process with EXIT_SIGNALLED plus the number."""
    if not stop.is_set():
        _log.info("%s received", number.name)
        stop.set()
        return
    # At once means: no clean-up that could hang. Stores write whole files or nothing, the other side sees links break.
    _log.warning("%s received again: ending now", number.name)
    logging.shutdown()
    os._exit(EXIT_SIGNALLED + number)
