"""The management service as these commands ask it: whole answers and event streams, every failure a sentence."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from balancer.access_files import read_access_file, read_token
from balancer.console.errors import ConsoleError, Unreachable, WrongUsage
from balancer.console.settings import ConnectionSettings
from balancer.console.text import printable

MAX_ANSWER_BYTES: Final = 128 * 1024 * 1024  # thousands of agents with hundreds of issues each
MAX_CA_BYTES: Final = 1024 * 1024
SILENCE_SECONDS: Final = 35.0  # streams show a sign of life every 10 s
TOKEN_FLAG: Final = "--management-token-file"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole one. Header names are as aiohttp's: any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """For people."""
        return "\n".join(printable(line) for line in self.body.decode("utf-8", "replace").splitlines()).strip()


class ManagementClient:
    """Made by `management_client`. Every method raises Unreachable, and WrongUsage when the token is refused."""

    def __init__(self, session: aiohttp.ClientSession, settings: ConnectionSettings) -> None:
        self._session = session
        self._timeout_seconds = settings.timeout_seconds
        self._shows_token = settings.management_token_file is not None
        self.address: Final = str(settings.management_addr)
        self._url = f"{'https' if settings.speaks_tls else 'http'}://{self.address}"

    async def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Any status but 401 is an answer."""
        limit = aiohttp.ClientTimeout(total=self._timeout_seconds)
        try:
            async with self._session.request(
                method, f"{self._url}{path}", data=body, headers=headers, timeout=limit, allow_redirects=False
            ) as response:
                content = await _read_bounded(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self.unreachable(error) from None
        self._check_status(response.status)
        return Answer(response.status, response.headers, content)

    async def document(self, path: str) -> Any:
        """What a GET that always succeeds answers, parsed. /ready may say 503."""
        answer = await self.ask("GET", path)
        if answer.status not in (200, 503) or not answer.headers.get("Content-Type", "").startswith("application/json"):
            raise self._stranger(f"GET {path} answered {answer.status}")
        try:
            return json.loads(answer.body)
        except ValueError:
            raise self._stranger(f"GET {path} answered no JSON") from None

    async def events(self, path: str) -> AsyncIterator[Any]:
        """The documents of a stream of snapshots, until the balancer ends it."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_seconds, sock_read=SILENCE_SECONDS)
        try:
            async with self._session.get(f"{self._url}{path}", timeout=limit, allow_redirects=False) as response:
                self._check_status(response.status)
                if response.status != 200:
                    raise Unreachable(f"{self.address} answered {response.status} to {path}")
                buffered = b""
                async for chunk in response.content.iter_any():
                    *blocks, buffered = (buffered + chunk).split(b"\n\n")
                    if len(buffered) > MAX_ANSWER_BYTES:
                        raise self._stranger(f"an event of {path} does not end")
                    for block in blocks:
                        if block.startswith(b"data: "):
                            yield json.loads(block[len(b"data: ") :])
        except ValueError:
            raise self._stranger(f"an event of {path} is no JSON") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self.unreachable(error) from None

    def unreachable(self, error: Exception) -> ConsoleError:
        """What an exception of the client library means, and what to check."""
        return unreachable(error, self.address, self._timeout_seconds)

    def _check_status(self, status: int) -> None:
        if status != 401:
            return
        if self._shows_token:
            raise WrongUsage(
                f"the balancer at {self.address} refuses the token. Is it the one in the balancer's "
                f"{TOKEN_FLAG}, and was the balancer told to read that file again (SIGHUP)?"
            )
        raise WrongUsage(f"the balancer at {self.address} asks for a token: give {TOKEN_FLAG} FILE")

    def _stranger(self, what: str) -> Unreachable:
        return Unreachable(
            f"something listens on {self.address}, but it is not the management service of a balancer of this "
            f"version ({what}). Check the port: --management-addr is 8060 by default, 8061 and 8070 are for clients."
        )


@asynccontextmanager
async def management_client(settings: ConnectionSettings) -> AsyncIterator[ManagementClient]:
    """Raises AccessFileRefused and WrongUsage for files that cannot be used."""
    headers = {}
    if settings.management_token_file is not None:
        token = await asyncio.to_thread(read_token, settings.management_token_file, TOKEN_FLAG)
        headers["Authorization"] = f"Bearer {token.decode('ascii', 'replace')}"
    # Reading this host's certificates takes a while, which plain HTTP need not wait for.
    trusts = await asyncio.to_thread(trusted, settings.cacert) if settings.speaks_tls else True
    connector = aiohttp.TCPConnector(ssl=trusts)
    async with aiohttp.ClientSession(connector=connector, headers=headers, auto_decompress=False) as session:
        yield ManagementClient(session, settings)


def trusted(cacert: Path | None) -> ssl.SSLContext:
    """Whom to believe: this host's certificates, or those of a file only. Reads files; raises AccessFileRefused and
    WrongUsage."""
    if cacert is None:
        return ssl.create_default_context()
    pem = read_access_file(cacert, "--cacert", MAX_CA_BYTES, is_secret=False)
    try:
        return ssl.create_default_context(cadata=pem.decode("ascii", "replace"))
    except ssl.SSLError:
        raise WrongUsage(f"--cacert: {cacert} holds no PEM certificates") from None


def unreachable(error: Exception, address: str, timeout_seconds: float) -> ConsoleError:
    """What an exception of the client library means, and what to check."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or "it is not trusted"
        return Unreachable(
            f"the certificate of {address} is refused: {printable(str(reason))}. "
            "Give --cacert FILE with the certificate that the balancer's --tls-cert holds, and ask for the name in it."
        )
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return Unreachable(f"{address} does not speak TLS: leave --tls and --cacert out, or check the port")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Unreachable(
            f"the name in {address} is not known to this host: check the spelling, or give an IP address"
        )
    if isinstance(error, aiohttp.ClientConnectorError):
        return Unreachable(
            f"nobody answers at {address} ({reason_of(error)}). Does the balancer run there (systemctl status "
            "steersman-balancer), and is this the address of its --management-addr?"
        )
    if isinstance(error, TimeoutError):
        return Unreachable(
            f"no answer from {address} within {timeout_seconds:g} s. Is it the right address, does a firewall drop "
            "the packets, or is the balancer overloaded? --timeout waits longer."
        )
    return Unreachable(
        f"{address} ended the connection without an answer. If that balancer has a --tls-cert, give --tls or "
        "--cacert FILE; if it is just starting or stopping, try again."
    )


def reason_of(error: aiohttp.ClientConnectorError) -> str:
    """`Connection refused`, without the address that asyncio writes into it."""
    number = error.os_error.errno
    return os.strerror(number) if number is not None else printable(error.strerror or str(error.os_error))


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise aiohttp.ClientPayloadError("the answer is too large")
    return bytes(content)
