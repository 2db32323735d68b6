"""One balancer: constructs every part, starts them, and stops them in the order that loses nothing.

The order of dying: say so on `/ready` and refuse new connections; let requests go on until the drain's deadline; fail
the rest; let answers leave; close the agents' sockets; end the side tasks; close the store.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from random import Random
from typing import Any, Final

from balancer.agent_socket import AgentSocket, AgentSocketSettings
from balancer.compat_relay import CompatRelay
from balancer.compat_routes import CompatQuestions
from balancer.complete_routes import CompleteRoutes
from balancer.completions_dialect import CompletionLimits
from balancer.completions_routes import CompletionsRoutes
from balancer.core.machine import Machine
from balancer.core.state import MachineSettings
from balancer.desired_state_open import open_store
from balancer.desired_state_store import DesiredStateStore
from balancer.desired_state_watch import DesiredStateWatch
from balancer.entrance import AGENT_SOCKET_PREFIX, Entrance
from balancer.listeners import Listener, new_service
from balancer.management_routes import add_management_routes
from balancer.management_services import ManagementServices
from balancer.metrics import Metrics
from balancer.native_routes import NativeRoutes
from balancer.openapi_management import MANAGEMENT
from balancer.openapi_operations import COMPAT, INFERENCE
from balancer.openapi_route import OpenApiRoute
from balancer.process_secrets import Secrets
from balancer.request_body import BodyLimits
from balancer.settings import BalancerSettings
from balancer.switchboard import Switchboard
from balancer.switchboard_tables import SwitchboardSettings
from shared.desired_state import BalancerDesiredState
from shared.identifiers import new_identifier
from shared.settings_sources import Address
from shared.version import software_version

AGENT_SOCKET_PATH: Final = AGENT_SOCKET_PREFIX + "{agent_id}"

_log = logging.getLogger(__name__)


class SideTaskDied(Exception):
    """A task that must run as long as the balancer has ended; the message names it."""


class Balancer:
    """Everything of one process. `open` makes it, `serve` runs it once, start to end."""

    def __init__(
        self, settings: BalancerSettings, secrets: Secrets, store: DesiredStateStore, *, checks_every_event: bool
    ) -> None:
        self.settings = settings
        self._store = store
        self._is_shutting_down = False
        self._entrance = Entrance(settings, secrets, time.monotonic)
        self.switchboard = Switchboard(
            Machine(
                MachineSettings(
                    max_buffered_requests=settings.max_buffered_requests,
                    buffered_request_timeout_seconds=settings.buffered_request_timeout_seconds,
                    checks_every_event=checks_every_event,
                )
            ),
            time.monotonic,
            SwitchboardSettings(
                inference_item_timeout_seconds=settings.inference_item_timeout_seconds,
                max_pending_bytes=settings.max_pending_bytes,
            ),
        )
        self.watch = DesiredStateWatch(store, self.switchboard.set_desired_state, Random())
        self._agent_socket = AgentSocket(
            self.switchboard,
            AgentSocketSettings(
                balancer_id=new_identifier(), heartbeat_interval_seconds=settings.heartbeat_interval_seconds
            ),
            time.monotonic,
            self._entrance.agents.authorizes,
        )
        self.inference = self._inference_listener()
        self.compat = self._compat_listener()
        self.management = self._management_listener()
        self.is_serving = asyncio.Event()

    @classmethod
    async def open(
        cls, settings: BalancerSettings, secrets: Secrets, *, checks_every_event: bool = False
    ) -> "Balancer":
        """Open the store and construct the rest. Raises StoreRefused.

        `checks_every_event` is for tests: the machine checks its own records after each fact.
        """
        store = await open_store(
            settings.state_database, password=secrets.redis_password, key_prefix=settings.redis_key_prefix
        )
        return cls(settings, secrets, store, checks_every_event=checks_every_event)

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

    async def serve(self, stop: asyncio.Event, read_again: asyncio.Event | None = None) -> None:
        """Serve until `stop` is set, then stop in order; afterwards nothing of it is left. Each time `read_again` is
        set, the files of keys, tokens and certificates are read again.

        Raises an ExceptionGroup of CannotListen or of SideTaskDied. Cancelled, it closes at once.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                side_tasks = [
                    tasks.create_task(_must_not_end(self.switchboard.run(), "switchboard"), name="switchboard"),
                    tasks.create_task(
                        _must_not_end(self.watch.run(), "desired-state watch"), name="desired-state-watch"
                    ),
                    tasks.create_task(
                        _must_not_end(self._entrance.read_again_when(read_again or asyncio.Event()), "access files"),
                        name="access-files",
                    ),
                ]
                try:
                    await self._start_listening()
                    await stop.wait()
                    await self._drain()
                finally:
                    await self._close_listeners()
                    for task in side_tasks:
                        task.cancel()
        finally:
            await self._store.aclose()
            _log.info("the balancer has stopped")

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

    # Construction

    def _inference_listener(self) -> Listener:
        app = new_service(self.settings.inference_cors_allowed_host, refuse=self._entrance.inference.refusal)
        NativeRoutes(
            open_group=self.switchboard.open_group,
            is_generation_disabled=self._is_generation_disabled,
            body_limits=self._body_limits(),
            item_timeout_seconds=self.settings.inference_item_timeout_seconds,
        ).add_to(app)
        OpenApiRoute("inference", INFERENCE).add_to(app)
        return Listener("inference", app, self.settings.inference_addr, self._entrance.tls)

    def _compat_listener(self) -> Listener:
        app = new_service(
            self.settings.inference_cors_allowed_host,
            names_allowed_methods=True,
            refuse=self._entrance.compat.refusal,
        )
        relay = CompatRelay(self.switchboard.open_group, self.settings.inference_item_timeout_seconds)
        CompatQuestions(
            fleet=self.switchboard.fleet,
            wanted_state=self._wanted_state,
            is_shutting_down=lambda: self._is_shutting_down,
        ).add_to(app)
        CompleteRoutes(relay=relay, wanted_state=self._wanted_state, body_limits=self._body_limits()).add_to(app)
        CompletionsRoutes(
            relay=relay,
            wanted_state=self._wanted_state,
            body_limits=self._body_limits(),
            fleet=self.switchboard.fleet,
            limits=CompletionLimits(
                max_choices=self.settings.max_choices_per_request,
                allows_text_prompts=self.settings.completions_text_prompts,
            ),
        ).add_to(app)
        OpenApiRoute("compatibility", COMPAT).add_to(app)
        return Listener("compat", app, self.settings.compat_addr, self._entrance.tls)

    def _management_listener(self) -> Listener:
        app = new_service(self.settings.management_cors_allowed_host, refuse=self._entrance.management.refusal)
        add_management_routes(
            app,
            ManagementServices(
                switchboard=self.switchboard,
                watch=self.watch,
                metrics=Metrics(self.switchboard.statistics, software_version(), self.settings.metrics_prefix),
                is_shutting_down=lambda: self._is_shutting_down,
                body_limits=self._body_limits(),
            ),
        )
        app.router.add_get(AGENT_SOCKET_PATH, self._agent_socket.handle, allow_head=False)
        OpenApiRoute("management", MANAGEMENT).add_to(app)
        return Listener("management", app, self.settings.management_addr, self._entrance.tls)

    def _body_limits(self) -> BodyLimits:
        return BodyLimits(max_bytes=self.settings.max_request_bytes)

    def _wanted_state(self) -> BalancerDesiredState | None:
        current = self.watch.current
        return None if current is None else current.state

    def _is_generation_disabled(self) -> bool:
        """By the state that is wanted, as in Paddler; agents may still be catching up."""
        current = self.watch.current
        return current is not None and current.state.inference_parameters.enable_embeddings


async def _must_not_end(coroutine: Coroutine[Any, Any, None], name: str) -> None:
    """Raises SideTaskDied, whatever the coroutine ended with, and logs the cause; cancellation passes through."""
    try:
        await coroutine
    except Exception as error:
        _log.critical("the %s task died, so the balancer stops", name, exc_info=True)
        raise SideTaskDied(name) from error
    _log.critical("the %s task ended, which it never should, so the balancer stops", name)
    raise SideTaskDied(name)
