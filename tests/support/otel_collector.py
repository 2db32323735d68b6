"""An OpenTelemetry collector: a real HTTP server that decodes what it is posted, and answers what the test says.

async with otel_collector() as collector:
    ... collector.url ...
    span = await collector.wait_span("text_completion tiny")
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

DEADLINE_SECONDS = 20.0


@dataclass
class OtelCollector:
    """`answer_status`: of every answer from now on; None: it never answers."""

    url: str = ""
    answer_status: int | None = 200
    posts: int = 0
    spans: list[Span] = field(default_factory=list)
    resource: dict[str, Any] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait_posts(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), self._news:
            await self._news.wait_for(lambda: self.posts >= count)

    async def wait_spans(self, count: int) -> list[Span]:
        async with asyncio.timeout(DEADLINE_SECONDS), self._news:
            await self._news.wait_for(lambda: len(self.spans) >= count)
        return self.spans

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        async with self._news:
            self.posts += 1
            self.bodies.append(body)
            if self.answer_status == 200:
                self._keep(ExportTraceServiceRequest.FromString(body))
            self._news.notify_all()
        if self.answer_status is None:
            await asyncio.Event().wait()
        return web.Response(status=self.answer_status or 500)

    def _keep(self, decoded: ExportTraceServiceRequest) -> None:
        for one in decoded.resource_spans:
            self.resource = attributes_of(one.resource)
            for scope in one.scope_spans:
                self.spans.extend(scope.spans)


def attributes_of(holder: Any) -> dict[str, Any]:
    """Of a span or a resource, as Python values."""
    return {one.key: _value(one.value) for one in holder.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@asynccontextmanager
async def otel_collector() -> AsyncIterator[OtelCollector]:
    """Listening on a free loopback port."""
    collector = OtelCollector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    collector.url = f"http://{host}:{port}"
    try:
        yield collector
    finally:
        await runner.cleanup()
