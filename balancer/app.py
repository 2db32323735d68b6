"""One balancer: constructs every part, starts them, and stops them in the order that loses nothing.

The order of dying: say so on `/ready` and refuse new connections; let requests go on until the drain's deadline; fail
the rest; let answers leave; close the agents' sockets; end the side tasks; close the store.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from random import Random
from typing import Final

from balancer.agent_socket import AgentSocket, AgentSocketSettings
from balancer.core.machine import Machine
from balancer.core.state import MachineSettings
from balancer.desired_state_open import open_store
from balancer.desired_state_store import DesiredStateStore
from balancer.desired_state_watch import DesiredStateWatch
from balancer.entrance import Entrance
from balancer.metrics.telemetry import Telemetry
from balancer.otel_export import NoOtelPackages, SpanExport
from balancer.process_secrets import Secrets
from balancer.request_observers import RequestObservers, open_spans
from balancer.service_status import service_facts
from balancer.services import ServiceParts, compat_listener, inference_listener, management_listener
from balancer.settings import BalancerSettings
from balancer.side_tasks import SideTask, start_side_tasks
from balancer.switchboard import Switchboard
from balancer.switchboard_tables import SwitchboardSettings
from shared.identifiers import new_identifier
from shared.service_link import ServiceLink, Supervision, reload_when
from shared.service_manager import ServiceFacts
from shared.settings_sources import Address

CLOSING_SECONDS: Final = 30.0  # after the drain, at most: last lines leave, sockets close, the store closes

_log = logging.getLogger(__name__)


class Balancer:
    """Everything of one process. `open` makes it, `serve` runs it once, start to end."""

    def __init__(
        self,
        settings: BalancerSettings,
        secrets: Secrets,
        store: DesiredStateStore,
        spans: SpanExport | None,
        *,
        checks_every_event: bool,
    ) -> None:
        self.settings = settings
        self.is_serving = asyncio.Event()
        self._is_shutting_down = False
        self._store = store
        self._entrance = Entrance(settings, secrets, time.monotonic)
        self._telemetry = Telemetry(settings, time.monotonic)
        self._observers = RequestObservers(settings, self._telemetry.requests, spans)
        self.switchboard = self._new_switchboard(checks_every_event=checks_every_event)
        self.watch = DesiredStateWatch(store, self.switchboard.set_desired_state, Random())
        self._agent_socket = AgentSocket(
            self.switchboard,
            AgentSocketSettings(
                balancer_id=new_identifier(), heartbeat_interval_seconds=settings.heartbeat_interval_seconds
            ),
            time.monotonic,
            self._entrance.agents.authorizes,
            self._telemetry.traffic,
        )
        parts = ServiceParts(
            settings=settings,
            entrance=self._entrance,
            switchboard=self.switchboard,
            watch=self.watch,
            books=self._observers.books,
            is_shutting_down=lambda: self._is_shutting_down,
        )
        self.inference = inference_listener(parts)
        self.compat = compat_listener(parts)
        self.management = management_listener(
            parts, self._agent_socket, self._telemetry.metrics(self.switchboard, self.watch)
        )

    def _new_switchboard(self, *, checks_every_event: bool) -> Switchboard:
        machine = Machine(
            MachineSettings(
                max_buffered_requests=self.settings.max_buffered_requests,
                buffered_request_timeout_seconds=self.settings.buffered_request_timeout_seconds,
                checks_every_event=checks_every_event,
            )
        )
        settings = SwitchboardSettings(
            inference_item_timeout_seconds=self.settings.inference_item_timeout_seconds,
            max_pending_bytes=self.settings.max_pending_bytes,
        )
        return Switchboard(machine, time.monotonic, settings, self._telemetry.figures)

    @classmethod
    async def open(
        cls, settings: BalancerSettings, secrets: Secrets, *, checks_every_event: bool = False
    ) -> "Balancer":
        """Open the store and construct the rest. Raises StoreRefused and NoOtelPackages.

        `checks_every_event` is for tests: the machine checks its own records after each fact.
        """
        store = await open_store(
            settings.state_database, password=secrets.redis_password, key_prefix=settings.redis_key_prefix
        )
        try:
            spans = await open_spans(settings)
        except NoOtelPackages:
            await store.aclose()
            raise
        return cls(settings, secrets, store, spans, checks_every_event=checks_every_event)

    @property
    def inference_address(self) -> Address:
        """Where clients reach it, once it is serving."""
        return self.inference.addresses[0]

    @property
    def compat_address(self) -> Address:
        """Where clients of other systems reach it, once it is serving."""
        return self.compat.addresses[0]

    @property
    def management_address(self) -> Address:
        """Where agents and operators reach it, once it is serving."""
        return self.management.addresses[0]

    async def serve(self, stop: asyncio.Event, supervision: Supervision | None = None) -> None:
        """Serve until `stop` is set, then stop in order; afterwards nothing of it is left. Each time a reload is asked
        for, the files of keys, tokens and certificates are read again.

        Raises an ExceptionGroup of CannotListen or of SideTaskDied. Cancelled, it closes at once.
        """
        supervision = supervision or Supervision()
        link = ServiceLink(supervision.manager, self._service_facts, time.monotonic)
        try:
            async with asyncio.TaskGroup() as tasks:
                side_tasks = start_side_tasks(tasks, self._side_tasks(supervision, link))
                try:
                    await self._start_listening()
                    await stop.wait()
                    link.stopping(self.settings.drain_timeout_seconds + CLOSING_SECONDS)
                    await self._drain()
                finally:
                    await self._close_listeners()
                    for task in side_tasks:
                        task.cancel()
        finally:
            await self._observers.aclose()
            await self._store.aclose()
            if self.is_serving.is_set():  # else why it could not start is all there is to say
                _log.info("the balancer has stopped")

    def _side_tasks(self, supervision: Supervision, link: ServiceLink) -> Iterator[SideTask]:
        reload_steps = [*supervision.reload_steps, self._entrance.read_again]
        yield self.switchboard.run(), "switchboard"
        yield self.watch.run(), "desired-state watch"
        yield reload_when(supervision.reload_asked, link, reload_steps), "reload"
        yield link.run(), "service manager"
        yield from self._telemetry.tasks(self.switchboard)

    def _service_facts(self) -> ServiceFacts:
        return service_facts(
            self.switchboard.statistics(),
            self.switchboard.fleet(),
            listens=self.is_serving.is_set(),
            knows_state=self.watch.current is not None,
        )

    # The order of starting and stopping

    async def _start_listening(self) -> None:
        for listener in (self.management, self.inference, self.compat):  # agents first: they are what clients wait for
            await listener.start()
        self._entrance.warn_when_open(self.inference, self.compat, self.management)
        self.is_serving.set()

    async def _drain(self) -> None:
        """Let requests end by themselves until the deadline; those that have not by then fail with a reason."""
        self._is_shutting_down = True
        timeout_seconds = self.settings.drain_timeout_seconds
        _log.info("stopping: requests in progress have %g s; a second signal ends them now", timeout_seconds)
        await self.inference.stop_accepting()
        await self.compat.stop_accepting()
        self.switchboard.begin_shutdown(time.monotonic() + timeout_seconds)
        try:
            async with asyncio.timeout(timeout_seconds):
                await self.switchboard.wait_drained()
        except TimeoutError:
            _log.warning("the drain timeout has passed; what still waits or runs is failed")
        self.switchboard.fail_the_rest()

    async def _close_listeners(self) -> None:
        """Clients first, so that their last lines leave; then operators and agents (close code 1001)."""
        self._is_shutting_down = True
        await self.inference.close()
        await self.compat.close()
        await self._agent_socket.close_all()
        await self.management.close()
