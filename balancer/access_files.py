"""Files with secrets in them: read within bounds, and only when nobody else may write them."""

import logging
import os
import stat
from pathlib import Path
from typing import Final

MAX_TOKEN_BYTES: Final = 4096

_log = logging.getLogger(__name__)


class AccessFileRefused(Exception):
    """A file is missing, empty, too large, malformed or open to everybody; one sentence names it and the remedy.

    Never quotes what the file holds.
    """


def read_access_file(path: Path, flag: str, max_bytes: int, *, is_secret: bool = True) -> bytes:
    """The whole content. Raises AccessFileRefused.

    A secret that every user may read is used, with a warning (mounted secrets look like that); what every user may
    write is refused.
    """
    try:
        # A named pipe would keep us waiting for whoever writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            content = file.read(max_bytes + 1) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise AccessFileRefused(f"{flag}: {path} cannot be read ({error.strerror})") from None
    except ValueError:
        raise AccessFileRefused(f"{flag}: is not the name of a file") from None
    if not stat.S_ISREG(mode):
        raise AccessFileRefused(f"{flag}: {path} is not a regular file")
    if len(content) > max_bytes:
        raise AccessFileRefused(f"{flag}: {path} is larger than {max_bytes} bytes")
    if mode & stat.S_IWOTH:
        raise AccessFileRefused(f"{flag}: every user of this host may change {path}; chmod 600 it")
    if is_secret and mode & stat.S_IROTH:
        _log.warning("%s: every user of this host may read %s; chmod 600 it", flag, path)
    return content


def read_token(path: Path, flag: str) -> bytes:
    """The secret of one file, without the white space around it. Raises AccessFileRefused."""
    token = read_access_file(path, flag, MAX_TOKEN_BYTES).strip()
    if not token:
        raise AccessFileRefused(f"{flag}: {path} is empty; write the token into it")
    if len(token.split()) > 1:
        raise AccessFileRefused(f"{flag}: {path} must hold one token of at most {MAX_TOKEN_BYTES} bytes, on one line")
    return token
