"""What aiohttp says about a request that it cannot read, without the client's bytes."""

import logging
from typing import Final

from aiohttp import hdrs, web
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError, LineTooLong

SERVER_NAME: Final = "steersman"
"""Instead of aiohttp's, which tells the versions of what we run on."""

_NOT_HTTP: Final = "The request is not valid HTTP."
_SENTENCES: Final[dict[type[BaseException], str]] = {
    ContentEncodingError: "The body cannot be decoded; send it as it is, or with Content-Encoding gzip or deflate.",
    LineTooLong: "The request line or a header is too long.",
}


class TameMalformedRequests(logging.Filter):
    """aiohttp logs a request that is no HTTP, or whose body is not what its headers say, as an error of the server's,
    with a traceback that quotes the client's bytes, of a prompt perhaps. It is worth a line without them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Changes the record; never drops it."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if record.name == "aiohttp.server" and isinstance(error, HttpProcessingError | web.RequestPayloadError):
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            sender = f" from {record.args[0]}" if isinstance(record.args, tuple) and record.args else ""
            record.msg, record.args = f"a request{sender} was not valid HTTP ({type(error).__name__})", ()
            record.exc_info = record.exc_text = None
        return True


class QuietRunner(web.AppRunner):
    """Answers what is no HTTP in our words: aiohttp's quote the client's bytes and name the software that is missing
    here. Such a request reaches no middleware and no signal, so this is the only place."""

    __slots__ = ()

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        server.__class__ = _QuietServer  # made again, it would lose what it was told on the way here
        return server


class _QuietServer(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _QuietProtocol(self, loop=self._loop, **self._kwargs)


class _QuietProtocol(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        answer = super().handle_error(request, status, exc, message)
        if isinstance(answer, web.Response) and status < 500:
            answer.text = _SENTENCES.get(type(exc), _NOT_HTTP) if exc is not None else _NOT_HTTP
        answer.headers[hdrs.SERVER] = SERVER_NAME
        return answer
