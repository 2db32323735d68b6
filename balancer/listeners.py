"""What all HTTP services share: an outer layer (CORS, keys, 404, health, last resort) and the sockets."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from balancer.cors import CrossOriginRules
from balancer.malformed_requests import SERVER_NAME, QuietRunner
from balancer.request_names import name_request
from shared.listening_fault import listening_fault
from shared.settings_sources import Address

KEEP_ALIVE_SECONDS: Final = 75.0  # longer than the 60 s of common front proxies, so that they close first
# After the drain: how long answers that have ended may take to leave, and endless event streams are waited for.
LAST_FLUSH_SECONDS: Final = 2.0
HEALTH_PATH: Final = "/health"
_BACKLOG: Final = 1024

Refuse = Callable[[web.Request], web.Response | None]
"""The answer for a request that may not come in; None: it may."""
Lost = Callable[[web.Request, web.HTTPException], web.Response]
"""The answer for a request that no route serves; told whether path or method is the reason."""

_log = logging.getLogger(__name__)


class CannotListen(Exception):
    """The address cannot be bound; one sentence names it and the reason."""


def new_service(
    cors_allowed_origins: Sequence[str], *, lost: Lost | None = None, refuse: Refuse | None = None
) -> web.Application:
    """An application with the layer that every service has and `GET /health`.

    `lost` answers for paths and methods that nobody serves; without it that is 404, as on Paddler's wire.
    `refuse` is asked before any handler, but never about a preflight, which cannot carry a key.
    """
    rules = CrossOriginRules(cors_allowed_origins)

    @web.middleware
    async def outer_layer(request: web.Request, handler: Handler) -> web.StreamResponse:
        preflight = rules.preflight_answer(request)
        if preflight is not None:
            return preflight
        refused_answer = None if refuse is None else refuse(request)
        if refused_answer is not None:
            return refused_answer
        try:
            return await handler(request)
        except (web.HTTPNotFound, web.HTTPMethodNotAllowed) as refused:
            return web.Response(status=404) if lost is None else lost(request, refused)
        except web.HTTPException:
            raise
        except Exception:
            # aiohttp would answer with its own page. If the answer has begun, only a broken connection says so.
            if request.writer.output_size > 0:
                raise
            _log.exception("%s %s failed", request.method, request.rel_url.path)
            return web.Response(status=500, text="Internal server error")

    # Bodies are read and bounded by `request_body`; aiohttp's own limit concerns methods that we do not use.
    app = web.Application(middlewares=[outer_layer], logger=_log)
    app.on_response_prepare.append(rules.mark)
    app.on_response_prepare.append(_name_ourselves)
    app.on_response_prepare.append(name_request)
    app.router.add_get(HEALTH_PATH, _health)
    return app


async def _name_ourselves(_: web.Request, response: web.StreamResponse) -> None:
    response.headers[hdrs.SERVER] = SERVER_NAME


async def _health(_: web.Request) -> web.Response:
    return web.Response(text="OK")


class Listener:
    """One service on one address, which the flag `--<name>-addr` gives. `port` 0 takes a free one; `addresses` tells
    which. `tls` None: plain HTTP."""

    def __init__(self, name: str, app: web.Application, address: Address, tls: ssl.SSLContext | None = None) -> None:
        self.name = name
        self._tls = tls
        self._address = address
        self._runner = QuietRunner(
            app,
            # Off by default, and then a handler that waits never learns that its client has left.
            handler_cancellation=True,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            shutdown_timeout=LAST_FLUSH_SECONDS,
            access_log=None,
        )
        self._site: web.TCPSite | None = None

    @property
    def addresses(self) -> list[Address]:
        """Where it really listens; empty when it does not."""
        return [Address(*address[:2]) for address in self._runner.addresses]

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        await self._runner.setup()
        host, port = self._address
        site = web.TCPSite(self._runner, host, port, backlog=_BACKLOG, ssl_context=self._tls)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            fault = listening_fault(error, "balancer", f"--{self.name}-addr")
            raise CannotListen(f"{self.name} cannot listen on {self._address}: {fault}") from None
        self._site = site
        where = ", ".join(str(address) for address in self.addresses)
        _log.info("%s listens on %s%s", self.name, where, "" if self._tls is None else " with TLS")

    async def stop_accepting(self) -> None:
        """No new connections, no further requests on those that are idle; requests in progress go on."""
        if self._site is None:
            return
        site, self._site = self._site, None
        await site.stop()
        await asyncio.sleep(0)  # requests that have arrived get to begin
        if self._runner.server is not None:
            self._runner.server.pre_shutdown()

    async def close(self) -> None:
        """Close every connection: handlers still get LAST_FLUSH_SECONDS, then they are cancelled."""
        await self.stop_accepting()
        await self._runner.cleanup()
