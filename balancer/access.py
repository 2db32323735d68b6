"""Who may come in. So far: agents, who show the token of `--agent-token-file` as `Authorization: Bearer ...`."""

import hmac
import logging
import os
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

from shared.settings_sources import Address

MAX_TOKEN_BYTES: Final = 4096

_log = logging.getLogger(__name__)


class TokenFileRefused(Exception):
    """A token file is missing, empty or too large; one sentence names the file and the remedy."""


def read_token(path: Path, flag: str) -> bytes:
    """The secret of one file, without the white space around it. Raises TokenFileRefused.

    A file that others may read is used, with a warning.
    """
    try:
        with path.open("rb") as file:
            others_may_read = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o004
            token = file.read(MAX_TOKEN_BYTES + 1).strip()
    except OSError as error:
        raise TokenFileRefused(f"{flag}: {path} cannot be read ({error.strerror})") from None
    if not token:
        raise TokenFileRefused(f"{flag}: {path} is empty; write the token into it")
    if len(token) > MAX_TOKEN_BYTES or len(token.split()) > 1:
        raise TokenFileRefused(f"{flag}: {path} must hold one token of at most {MAX_TOKEN_BYTES} bytes, on one line")
    if others_may_read:
        _log.warning("%s: every user of this host may read %s; chmod 600 it", flag, path)
    return token


class AgentAccess:
    """`token` None: everybody may be an agent, as with Paddler."""

    def __init__(self, token: bytes | None) -> None:
        self._token = token

    def admits(self, authorization: str | None) -> bool:
        """Whether an `Authorization` header shows the token. Takes the same time however much of it is right."""
        if self._token is None:
            return True
        scheme, _, shown = (authorization or "").partition(" ")
        is_same = hmac.compare_digest(shown.strip().encode("utf-8", "surrogateescape"), self._token)
        return is_same and scheme.lower() == "bearer"

    def authorizes(self, request: web.Request) -> bool:
        """`admits` for a request of the agents' socket; who is turned away is logged."""
        is_admitted = self.admits(request.headers.get(hdrs.AUTHORIZATION))
        if not is_admitted:
            _log.warning("an agent at %s shows no token, or a wrong one: see --agent-token-file", request.remote)
        return is_admitted


def warn_when_open(address: Address, service: str, *, has_agent_token: bool) -> None:
    """Say loudly that everybody who reaches an address may use it."""
    if is_loopback(address.host):
        return
    who = "" if has_agent_token else ", and so may anybody who poses as an agent and reads every prompt"
    _log.warning(
        "EVERYTHING IS OPEN on %s (%s): whoever reaches it may use it without a key%s. "
        "Listen on 127.0.0.1, close the port to others%s.",
        address,
        service,
        who,
        "" if has_agent_token else ", and set --agent-token-file",
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
