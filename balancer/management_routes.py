"""The management service's routes, all but the agents' socket. None of them needs a slot or waits for one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from balancer import fleet_view
from balancer.agent_questions import AgentDidNotAnswer, AgentGone, AgentUnknown
from balancer.desired_state_routes import DesiredStateRoutes
from balancer.json_answers import json_answer
from balancer.management_services import ManagementServices
from balancer.snapshot_stream import SnapshotStreams
from shared.metric_families import CONTENT_TYPE

log = logging.getLogger(__name__)

READY_PATH: Final = "/ready"
METRICS_PATH: Final = "/metrics"


def add_management_routes(app: web.Application, services: ManagementServices) -> None:
    """Register everything; the event streams end when the application shuts down."""
    DesiredStateRoutes(services).add_to(app)
    ManagementRoutes(services).add_to(app)


class ManagementRoutes:
    """Questions about the fleet."""

    def __init__(self, services: ManagementServices) -> None:
        self._services = services
        self._switchboard = services.switchboard
        self._streams = SnapshotStreams(
            services.switchboard.changes,
            keep_alive_seconds=services.keep_alive_seconds,
            least_seconds_between=services.least_seconds_between_snapshots,
            most=services.max_open_streams,
        )

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        routes = {
            READY_PATH: self.ready,
            METRICS_PATH: self.metrics,
            "/api/v1/agents": self.agents,
            "/api/v1/agents/stream": self.agents_stream,
            "/api/v1/fleet": self.fleet,
            "/api/v1/fleet/stream": self.fleet_stream,
            "/api/v1/buffered_requests": self.buffered_requests,
            "/api/v1/buffered_requests/stream": self.buffered_requests_stream,
            "/api/v1/agent/{agent_id}/model_metadata": self.model_metadata,
            "/api/v1/agent/{agent_id}/chat_template_override": self.chat_template_override,
            "/api/v1/stories/{request_id}": self.story,
        }
        for path, handler in routes.items():
            app.router.add_get(path, handler, allow_head=False)
        app.on_shutdown.append(self._end_streams)

    async def ready(self, _: web.Request) -> web.Response:
        is_ready, document = fleet_view.readiness(
            self._switchboard.fleet(),
            knows_state=self._services.watch.current is not None,
            is_shutting_down=self._services.is_shutting_down(),
        )
        return json_answer(document, status=200 if is_ready else 503)

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._services.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def agents(self, _: web.Request) -> web.Response:
        return json_answer(self._agents())

    async def agents_stream(self, request: web.Request) -> web.StreamResponse:
        return await self._streams.serve(request, self._agents)

    async def fleet(self, _: web.Request) -> web.Response:
        return json_answer(self._fleet())

    async def fleet_stream(self, request: web.Request) -> web.StreamResponse:
        return await self._streams.serve(request, self._fleet)

    async def buffered_requests(self, _: web.Request) -> web.Response:
        return json_answer(self._buffered())

    async def buffered_requests_stream(self, request: web.Request) -> web.StreamResponse:
        return await self._streams.serve(request, self._buffered)

    async def model_metadata(self, request: web.Request) -> web.Response:
        async def ask(agent_id: str) -> Any:
            metadata = await self._switchboard.ask_model_metadata(agent_id)
            return None if metadata is None else {"metadata": dict(sorted(metadata.items()))}

        return await _answer_of_agent(request, ask)

    async def chat_template_override(self, request: web.Request) -> web.Response:
        async def ask(agent_id: str) -> Any:
            content = await self._switchboard.ask_chat_template_override(agent_id)
            return None if content is None else {"content": content}

        return await _answer_of_agent(request, ask)

    async def story(self, request: web.Request) -> web.Response:
        request_id = request.match_info["request_id"]
        story = self._switchboard.story(request_id)
        if story is None:
            return web.Response(status=404)
        return json_answer({"request_id": request_id, "story": list(story)})

    async def _end_streams(self, _: web.Application) -> None:
        self._streams.end_all()
        await asyncio.sleep(0)

    def _agents(self) -> fleet_view.Json:
        return fleet_view.agents_document(self._switchboard.fleet())

    def _fleet(self) -> fleet_view.Json:
        return fleet_view.fleet_document(self._switchboard.fleet(), self._services.watch.problem)

    def _buffered(self) -> fleet_view.Json:
        return fleet_view.buffered_requests_document(self._switchboard.statistics())


async def _answer_of_agent(request: web.Request, ask: Callable[[str], Awaitable[Any]]) -> web.Response:
    """Paddler's statuses: 404 unknown, 502 gone meanwhile, 504 no answer, without bodies."""
    try:
        return json_answer(await ask(request.match_info["agent_id"]))
    except AgentUnknown:
        return web.Response(status=404)
    except AgentGone:
        return web.Response(status=502)
    except AgentDidNotAnswer:
        return web.Response(status=504)
