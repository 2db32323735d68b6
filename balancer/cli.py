"""`steersman balancer`: settings in, one process that serves until it is told to stop, an exit status out."""

import asyncio
import gc
import os
import sys
from typing import Final

import uvloop

from balancer.access_files import AccessFileRefused
from balancer.app import Balancer
from balancer.desired_state_store import StoreRefused
from balancer.listeners import CannotListen
from balancer.malformed_requests import TameMalformedRequests
from balancer.open_files import allow_many_open_files
from balancer.otel_export import NoOtelPackages
from balancer.process_secrets import Secrets
from balancer.settings import COMMAND, BalancerSettings
from balancer.side_tasks import SideTaskDied
from shared.log_output import set_level, write_logs_to_stderr
from shared.process_signals import reload_on_hangup, stop_on_signals
from shared.service_link import Supervision
from shared.service_manager import ServiceManager
from shared.settings_again import SettingsReload, SettingsSource
from shared.settings_sources import SettingsError

EXIT_FAILED: Final = 1
EXIT_WRONG_SETTINGS: Final = 2
COLLECT_AFTER_OBJECTS: Final = 20_000


def main(arguments: list[str]) -> int:
    """Run a balancer with the flags of `steersman balancer`; returns the exit status of the process.

    0: stopped in order by one SIGTERM or SIGINT. 1: it could not listen, or a part of it died. 2: a wrong setting.
    A second signal ends the process at once with 128 plus its number.
    """
    source = SettingsSource(BalancerSettings, COMMAND, arguments, os.environ)
    try:
        settings = source.first()
        write_logs_to_stderr(settings.log_level, settings.log_format, os.environ, [TameMalformedRequests()])
        secrets = Secrets.read(settings)
        allow_many_open_files()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(settings, secrets, source))
    except (SettingsError, AccessFileRefused, StoreRefused, NoOtelPackages) as refused:
        _say(f"{refused} ({COMMAND.help_pointer})")
        return EXIT_WRONG_SETTINGS


async def _serve(settings: BalancerSettings, secrets: Secrets, source: SettingsSource[BalancerSettings]) -> int:
    stop = asyncio.Event()
    stop_on_signals(stop)
    supervision = Supervision(
        manager=ServiceManager.of(os.environ, os.getpid()),
        reload_steps=(SettingsReload(source, settings, lambda new: set_level(new.log_level), ["log_level"]).step,),
    )
    if settings.has_access_files or source.may_change or supervision.manager is not None:
        reload_on_hangup(supervision.reload_asked)
    balancer = await Balancer.open(settings, secrets)
    _collect_garbage_less_often()
    status = 0
    try:
        await balancer.serve(stop, supervision)
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


def _say(sentence: str) -> None:
    print(f"{COMMAND.program}: {sentence}", file=sys.stderr)
