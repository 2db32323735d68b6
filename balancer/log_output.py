"""Log lines for people: time, level, where, what; on stderr. No line holds a prompt, an answer or a secret.

One record is one line, whatever a peer put into a name or an address: what is not printable is escaped, and what is
too long is cut. Only the traceback of a bug of ours takes more lines.
"""

import logging
import sys
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
MAX_MESSAGE_CHARACTERS: Final = 2000


def write_logs_to_stderr(level: str) -> None:
    """`level`: debug, info, warning, error. Libraries speak from `warning` on, so that `debug` is about us."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(FORMAT))
    handler.addFilter(tame_malformed_requests)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("balancer", "shared"):
        logging.getLogger(name).setLevel(level.upper())


class OneLine(logging.Formatter):
    """See the module."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = _one_line(record.message)
        return super().formatMessage(record)


def tame_malformed_requests(record: logging.LogRecord) -> bool:
    """aiohttp logs a request that is no HTTP, or whose body is not what its headers say, as an error of the server's,
    with a traceback that quotes the client's bytes, of a prompt perhaps. It is worth a line without them."""
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if record.name == "aiohttp.server" and isinstance(error, HttpProcessingError | web.RequestPayloadError):
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        sender = f" from {record.args[0]}" if isinstance(record.args, tuple) and record.args else ""
        record.msg, record.args = f"a request{sender} was not valid HTTP ({type(error).__name__})", ()
        record.exc_info = record.exc_text = None
    return True


def _one_line(text: str) -> str:
    if len(text) > MAX_MESSAGE_CHARACTERS:
        text = f"{text[:MAX_MESSAGE_CHARACTERS]}..."
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
