"""The raw prompt route over real sockets and our own listener; the test plays the switchboard."""

from collections.abc import AsyncIterator

import pytest

from balancer.listeners import Listener, new_service
from balancer.native_routes import NativeRoutes
from balancer.request_body import BodyLimits
from tests.support.inference_service import MAX_BYTES, InferenceService
from tests.support.scripted_groups import ScriptedGroups


@pytest.fixture
async def service() -> AsyncIterator[InferenceService]:
    started = InferenceService(ScriptedGroups(max_pending_bytes=64 * 1024 * 1024))
    app = new_service(["https://app.example.com"])
    NativeRoutes(
        open_group=lambda request: started.groups.open_group(request),
        is_generation_disabled=lambda: started.is_generation_disabled,
        body_limits=BodyLimits(max_bytes=MAX_BYTES, timeout_seconds=10.0),
        item_timeout_seconds=30.0,
        stall_seconds=0.5,
    ).add_to(app)
    listener = Listener("inference", app, started.address)
    await listener.start()
    (started.address,) = listener.addresses
    yield started
    await listener.close()
