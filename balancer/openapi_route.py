"""`GET /openapi.json` of a service."""

from collections.abc import Sequence
from typing import Final

import orjson
from aiohttp import web

from balancer.openapi_document import Operation, openapi_document
from shared.version import software_version

OPENAPI_PATH: Final = "/openapi.json"


class OpenApiRoute:
    """`name`: the service's. The document is made when it is first asked for."""

    def __init__(self, name: str, operations: Sequence[Operation]) -> None:
        self._title = f"Steersman, {name} service"
        self._operations = operations
        self._document: bytes | None = None

    def add_to(self, app: web.Application) -> None:
        """Register the route."""
        app.router.add_get(OPENAPI_PATH, self.document, allow_head=False)

    async def document(self, _: web.Request) -> web.Response:
        """The same bytes each time."""
        if self._document is None:
            self._document = orjson.dumps(openapi_document(self._title, software_version(), self._operations))
        return web.Response(body=self._document, content_type="application/json")
