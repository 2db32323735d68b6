"""Log lines of both sides, on stderr: for people, or one JSON object a line. No line holds a prompt, an answer or a
secret (`--log-prompts` of the balancer is the one exception).

One record is one line, whatever a peer put into a name or an address: what is not printable is escaped, and what is
too long is cut. Only the traceback of a bug of ours takes more lines, and in JSON not even that. When stderr is the
journal (systemd.exec(5), `JOURNAL_STREAM`), every line begins with its level as in sd-daemon(3), `<6>`, and carries no
time, which the journal has.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

from shared.log_fields import FIELDS, words_of_fields

FORMATS: Final = ("readable", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
READABLE_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
JOURNAL_FORMAT: Final = "%(name)s: %(message)s"
JOURNAL_VARIABLE: Final = "JOURNAL_STREAM"
MAX_MESSAGE_CHARACTERS: Final = 2000
MAX_TRACEBACK_CHARACTERS: Final = 16_000
OURS: Final = ("agent", "balancer", "shared")

# sd-daemon(3): those of syslog. Notice, alert and emergency have no counterpart.
_PRIORITIES: Final = (
    (logging.CRITICAL, "<2>"),
    (logging.ERROR, "<3>"),
    (logging.WARNING, "<4>"),
    (logging.INFO, "<6>"),
)


def write_logs_to_stderr(
    level: str, log_format: str, environment: Mapping[str, str], filters: Sequence[logging.Filter] = ()
) -> None:
    """`level`: one of LEVELS, `log_format`: one of FORMATS. Libraries speak from `warning` on, so that `debug` is about
    us. Replaces whatever was set up before."""
    is_journal = goes_to_journal(environment.get(JOURNAL_VARIABLE), sys.stderr)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter_of(log_format, is_journal=is_journal))
    for one in filters:
        handler.addFilter(one)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    set_level(level)


def set_level(level: str) -> None:
    """From now on: one of LEVELS. Raises ValueError for another word, and changes nothing then."""
    if level not in LEVELS:
        raise ValueError(f"the log level must be one of {', '.join(LEVELS)}")
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())


def formatter_of(log_format: str, *, is_journal: bool) -> logging.Formatter:
    """Raises ValueError for what is none of FORMATS."""
    if log_format not in FORMATS:
        raise ValueError(f"the log format must be one of {', '.join(FORMATS)}")
    inner = JsonLine() if log_format == "json" else OneLine(JOURNAL_FORMAT if is_journal else READABLE_FORMAT)
    return JournalLines(inner) if is_journal else inner


def goes_to_journal(journal_stream: str | None, stream: TextIO) -> bool:
    """Whether the stream is the one that systemd connected to the journal: device and inode are those of the variable,
    which a process that a shell started may have inherited for nothing."""
    if not journal_stream:
        return False
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or no file
        return False
    return journal_stream == f"{status.st_dev}:{status.st_ino}"


class OneLine(logging.Formatter):
    """For people. The fields of a record follow its message as `name=value`."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message) + one_line(words_of_fields(fields_of(record)))
        return super().formatMessage(record)


class JsonLine(logging.Formatter):
    """For programs: `time` (UTC), `level`, `logger`, `message`, then the record's fields, then `traceback` if there is
    one. ASCII only, so no terminal and no line splitter is steered by a name."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": cut(record.getMessage()),
        }
        document.update((name, cut(value)) for name, value in fields_of(record).items())
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)[-MAX_TRACEBACK_CHARACTERS:]
        return json.dumps(document, separators=(",", ":"))


class JournalLines(logging.Formatter):
    """Each line of another formatter with its level in front; the journal splits at line ends."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        prefix = next((word for level, word in _PRIORITIES if record.levelno >= level), "<7>")
        return "\n".join(prefix + line for line in self._inner.format(record).split("\n"))


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """What the record says beside its message (see `shared.log_fields`)."""
    fields = getattr(record, FIELDS, None)
    return fields if isinstance(fields, Mapping) else {}


def cut(value: Any) -> Any:
    """A text that is too long, shorter; anything else as it is."""
    if isinstance(value, str) and len(value) > MAX_MESSAGE_CHARACTERS:
        return f"{value[:MAX_MESSAGE_CHARACTERS]}..."
    return value


def one_line(text: str) -> str:
    """Bounded, and without anything that ends a line or steers a terminal."""
    text = cut(text)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
