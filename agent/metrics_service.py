"""The only port that an agent may open: its own metrics and its health, for who scrapes agents themselves."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import hdrs, web

from agent.metrics import exposition
from shared.agent_status import AgentStatus
from shared.listening_fault import listening_fault
from shared.metric_families import CONTENT_TYPE
from shared.settings_sources import Address

KEEP_ALIVE_SECONDS: Final = 75.0
LAST_FLUSH_SECONDS: Final = 2.0
MAX_SCRAPES_AT_ONCE: Final = 4  # one takes milliseconds of a core that the engine wants too

logger = logging.getLogger(__name__)


class CannotListen(Exception):
    """The address cannot be bound; one sentence names it and the reason."""


@contextlib.asynccontextmanager
async def serving_metrics(address: Address | None, snapshot: Callable[[], AgentStatus]) -> AsyncIterator[None]:
    """`GET /metrics` and `GET /health` while the block runs; None: nothing listens. `snapshot`: asked for each scrape,
    within the event loop. Raises CannotListen."""
    if address is None:
        yield
        return
    runner = web.AppRunner(
        _application(snapshot),
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=LAST_FLUSH_SECONDS,
        access_log=None,
    )
    await runner.setup()
    try:
        await _listen(runner, address)
        yield
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, address: Address) -> None:
    try:
        await web.TCPSite(runner, *address).start()
    except OSError as error:
        raise CannotListen(f"cannot listen on {address}: {listening_fault(error, 'agent', '--metrics-addr')}") from None
    where = ", ".join(str(Address(*bound[:2])) for bound in runner.addresses)
    logger.info("metrics are served on %s", where)


def _application(snapshot: Callable[[], AgentStatus]) -> web.Application:
    turns = asyncio.Semaphore(MAX_SCRAPES_AT_ONCE)

    async def metrics(_: web.Request) -> web.Response:
        async with turns:
            text = await asyncio.to_thread(exposition, snapshot())
        return web.Response(body=text, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="OK")

    application = web.Application(logger=logger)
    application.on_response_prepare.append(_name_ourselves)
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/health", health)
    return application


async def _name_ourselves(_: web.Request, response: web.StreamResponse) -> None:
    response.headers[hdrs.SERVER] = "steersman"  # instead of aiohttp's, which tells the versions of what we run on
