"""The management service on our own listener, over a fleet that the test writes and a store that it chooses."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from balancer.desired_state_store import DesiredStateStore
from balancer.desired_state_watch import DesiredStateWatch
from balancer.listeners import Listener, new_service
from balancer.management_routes import add_management_routes
from balancer.management_services import ManagementServices
from balancer.metrics.balancer_families import paddler_families
from balancer.metrics.exposition import Metrics
from shared.metric_families import build_families
from shared.settings_sources import Address
from tests.support.conditions import wait_until
from tests.support.fleet_snapshots import ScriptedSwitchboard
from tests.support.raw_http import Answer, RawConnection

STATE_PATH = "/api/v1/balancer_desired_state"


@dataclass(slots=True)
class ManagementService:
    """Listening. `is_shutting_down` is what the balancer would say of itself."""

    switchboard: ScriptedSwitchboard
    watch: DesiredStateWatch
    listener: Listener
    is_shutting_down: bool = False

    @property
    def address(self) -> Address:
        return self.listener.addresses[0]

    @property
    def url(self) -> str:
        return f"http://{self.address.host}:{self.address.port}"

    def connect(self) -> AbstractAsyncContextManager[RawConnection]:
        return RawConnection.to(self.address)

    async def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        async with self.connect() as client:
            await client.request(method, path, body, headers)
            return await client.read_answer()

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def get_json(self, path: str) -> Any:
        answer = await self.get(path)
        assert answer.status == 200, answer
        assert answer.head.headers["content-type"] == "application/json"
        return json.loads(answer.body)

    async def put_state(self, document: object, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return await self.ask("PUT", STATE_PATH, body, {"Content-Type": "application/json", **given})


@asynccontextmanager
async def management_service(
    store: DesiredStateStore, *, waits_for_state: bool = True, **services: Any
) -> AsyncIterator[ManagementService]:
    """`services` replace settings of `ManagementServices`."""
    switchboard = ScriptedSwitchboard()
    watch = DesiredStateWatch(store, switchboard.set_desired_state, Random(1))
    app = new_service([])
    listener = Listener("management", app, Address("127.0.0.1", 0))
    service = ManagementService(switchboard, watch, listener)
    given = {
        "switchboard": switchboard,
        "watch": watch,
        "metrics": Metrics(
            [
                lambda: partial(paddler_families, switchboard.figures, "paddler_"),
                lambda: partial(build_families, "0.1.0"),
            ]
        ),
        "is_shutting_down": lambda: service.is_shutting_down,
        "least_seconds_between_snapshots": 0.0,
        **services,
    }
    add_management_routes(app, ManagementServices(**given))
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch.run(), name="watch")
        await listener.start()
        try:
            if waits_for_state:
                await wait_until(lambda: watch.current is not None)
            yield service
        finally:
            await listener.close()
            watching.cancel()
