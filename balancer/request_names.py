"""Every answer of every service names its request, errors too, so that somebody who complains can be helped.

The id is ours, never the client's: logs, stories and agents know the request by it.
"""

from typing import Final

from aiohttp import web

from shared.identifiers import new_identifier

REQUEST_ID_HEADER: Final = "X-Request-Id"
REQUEST_ID: Final = web.RequestKey("request_id", str)
"""Where a route keeps the id under which it answers a request."""


async def name_request(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """For `on_response_prepare`. A request that no route has named has an id that is in the header only."""
    known = request.get(REQUEST_ID)
    if known is not None:
        response.headers[REQUEST_ID_HEADER] = known
    elif REQUEST_ID_HEADER not in response.headers:
        response.headers[REQUEST_ID_HEADER] = new_identifier()
