"""Which web pages may read our answers: a list of exact origins per service, as on Paddler's wire.

Other origins are served like any client; their browser keeps the answer from the page because the header is missing.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from aiohttp import hdrs, web

ALLOWED_METHODS: Final = "DELETE, GET, POST, PUT, OPTIONS"
ALLOWED_HEADERS: Final = "Accept, Authorization, Content-Type, x-api-key, anthropic-version, traceparent"
EXPOSED_HEADERS: Final = "x-request-id, Retry-After"
MAX_AGE_SECONDS: Final = 3600
REFUSAL_TEXT: Final = "Origin is not allowed to make this request"


def parse_origin(value: str) -> str:
    """An origin as browsers send it, `scheme://host[:port]`. Raises ValueError with a sentence.

    Paddler's documents show a bare host name; no browser's `Origin` header is ever equal to one.
    """
    parts = urlsplit(value)
    if value != f"{parts.scheme}://{parts.netloc}".lower() or not parts.scheme or not parts.netloc:
        raise ValueError("must be a whole origin such as https://app.example.com, in lower case, with no path")
    return value


class CrossOriginRules:
    """The rules of one service: answers preflights and marks what allowed pages may read."""

    def __init__(self, allowed_origins: Sequence[str]) -> None:
        self._allowed = frozenset(allowed_origins)

    def preflight_answer(self, request: web.Request) -> web.Response | None:
        """The answer to a preflight; None for every other request."""
        is_preflight = (
            request.method == hdrs.METH_OPTIONS
            and hdrs.ORIGIN in request.headers
            and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
        )
        if not is_preflight:
            return None
        if request.headers[hdrs.ORIGIN] not in self._allowed:
            return web.Response(status=400, text=REFUSAL_TEXT)
        return web.Response(
            headers={
                hdrs.ACCESS_CONTROL_ALLOW_METHODS: ALLOWED_METHODS,
                hdrs.ACCESS_CONTROL_ALLOW_HEADERS: ALLOWED_HEADERS,
                hdrs.ACCESS_CONTROL_MAX_AGE: str(MAX_AGE_SECONDS),
            }
        )

    async def mark(self, request: web.Request, response: web.StreamResponse) -> None:
        """Signal handler for `on_response_prepare`: every answer, streams and errors too."""
        if not self._allowed:
            return
        # A shared cache must not give one origin's answer to another.
        response.headers.add(hdrs.VARY, hdrs.ORIGIN)
        origin = request.headers.get(hdrs.ORIGIN)
        if origin in self._allowed:
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
            response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = EXPOSED_HEADERS
