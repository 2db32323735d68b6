"""`steersman bench URL`: a bounded number of streams, each a client that reads as fast as it can."""

import asyncio
import json
import shutil
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import aiohttp

from balancer.access import is_loopback
from balancer.access_files import read_token
from balancer.console.bench_report import Findings, report_lines
from balancer.console.bench_requests import APIS, DONE, BenchApi, reason
from balancer.console.command import run
from balancer.console.errors import EXIT_DONE, EXIT_NOT_WELL, ConsoleError, Unreachable, WrongUsage
from balancer.console.management_client import reason_of, trusted, unreachable
from balancer.console.settings import BENCH, BenchSettings
from balancer.console.status import COLUMNS_OF_A_PIPE

MODELS_PATH: Final = "/v1/models"
CONNECT_SECONDS: Final = 10.0
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
MAX_REFUSAL_BYTES: Final = 64 * 1024
UNFINISHED: Final = "not ended at the --limit"


def main(arguments: list[str]) -> int:
    """0: all answered; 1: some failed; 2: wrong usage; 3: nobody answers."""
    return run(BENCH, BenchSettings, arguments, _act)


def _act(settings: BenchSettings) -> int:
    host = settings.target.hostname or ""
    if not settings.yes and not is_loopback(host):
        raise WrongUsage(
            f"{host} is not this machine: {settings.requests} requests of up to {settings.max_tokens} tokens would "
            "take slots from its clients. --yes sends them."
        )
    key = None if settings.key_file is None else read_token(settings.key_file, "--key-file").decode("ascii", "replace")
    found = asyncio.run(_bench(settings, key, trusted(settings.cacert) if settings.target.scheme == "https" else True))
    width = shutil.get_terminal_size((COLUMNS_OF_A_PIPE, 24)).columns
    print("\n".join(report_lines(settings, found, width)))
    return EXIT_NOT_WELL if found.failures else EXIT_DONE


async def _bench(settings: BenchSettings, key: str | None, trusts: ssl.SSLContext | bool) -> Findings:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    connector = aiohttp.TCPConnector(limit=0, ssl=trusts)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
        load = Load(session, settings)
        await load.prepare()
        await load.run()
    return load.found


class Load:
    """All requests of one bench."""

    def __init__(self, session: aiohttp.ClientSession, settings: BenchSettings) -> None:
        self.found: Final = Findings()
        self._session = session
        self._settings = settings
        self._api: BenchApi = APIS[settings.api]
        self._base = f"{settings.target.scheme}://{settings.target.netloc}"
        self._model = settings.model or ""
        self._numbers: Iterator[int] = iter(range(settings.requests))

    async def prepare(self) -> None:
        """Somebody answers, and the model has a name. Raises ConsoleError."""
        path = MODELS_PATH if self._api.needs_model and not self._model else "/health"
        limit = aiohttp.ClientTimeout(total=CONNECT_SECONDS)
        try:
            async with self._session.get(f"{self._base}{path}", timeout=limit, allow_redirects=False) as answer:
                content = await answer.content.read(MAX_LINE_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _with_bench_words(error, self._settings) from None
        if answer.status == 401:
            raise WrongUsage(
                f"{self._base} refuses the key of --key-file"
                if self._settings.key_file
                else f"{self._base} asks for a key: give --key-file FILE"
            )
        if answer.status != 200:
            raise Unreachable(
                f"{self._base} answered {answer.status} to GET {path}. The balancer has raw-prompt on its "
                "--inference-addr (8061), completions and complete on its --compat-addr (8070)."
            )
        if path == MODELS_PATH:
            self._model = _first_model(content, self._base)

    async def run(self) -> None:
        """Until all requests have ended, or the limit has come."""
        started = time.monotonic()
        count = min(self._settings.streams, self._settings.requests)
        try:
            async with asyncio.timeout(self._settings.limit_seconds), asyncio.TaskGroup() as tasks:
                for stream in range(count):
                    tasks.create_task(self._requests_in_turn(), name=f"stream {stream}")
        except TimeoutError:
            unfinished = self._settings.requests - self.found.answered - self.found.failed
            self.found.failures[UNFINISHED] += unfinished
        self.found.seconds = time.monotonic() - started

    async def _requests_in_turn(self) -> None:
        for number in self._numbers:
            try:
                failure = await self._request(number)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                failure = _kind_of(error)
            except (ValueError, KeyError, TypeError, AttributeError):
                failure = "an answer that cannot be read"
            if failure is None:
                self.found.answered += 1
            else:
                self.found.failures[failure] += 1

    async def _request(self, number: int) -> str | None:
        """Why it failed; None when it ended well."""
        body = self._api.body(self._settings, number, self._model)
        started = time.monotonic()
        async with self._session.post(f"{self._base}{self._api.path}", json=body, allow_redirects=False) as response:
            if response.status != 200:
                said = await response.content.read(MAX_REFUSAL_BYTES)
                return reason(response.status, _said(said))
            return await self._read(response, started)

    async def _read(self, response: aiohttp.ClientResponse, started: float) -> str | None:
        last_text_at: float | None = None
        pieces = 0
        tokens: int | None = None
        async for documents in _documents(response):
            read = [self._api.read(document) for document in documents]
            failure = next((piece.failure for piece in read if piece.failure is not None), None)
            if failure is not None:
                return failure
            texts = sum(piece.has_text for piece in read)
            if texts:
                now = time.monotonic()
                times = self.found.first_token if last_text_at is None else self.found.gaps
                times.append(now - (started if last_text_at is None else last_text_at))
                last_text_at, pieces = now, pieces + texts
            for piece in read:
                if piece.tokens is not None:
                    tokens = piece.tokens
                    self.found.prompt_tokens += piece.prompt_tokens or 0
                    self.found.cached_tokens += piece.cached_tokens or 0
            if any(piece.is_end for piece in read):
                self.found.counts_events |= tokens is None
                self.found.generated_tokens += pieces if tokens is None else tokens
                self.found.request.append(time.monotonic() - started)
                return None
        return "the stream broke off"


async def _documents(response: aiohttp.ClientResponse) -> AsyncIterator[list[Any]]:
    """What came in one read, parsed: JSON lines, or the data of server-sent events."""
    buffered = b""
    async for chunk in response.content.iter_any():
        *lines, buffered = (buffered + chunk).split(b"\n")
        if len(buffered) > MAX_LINE_BYTES:
            raise ValueError("a line does not end")
        yield [_document(line.removeprefix(b"data: ")) for line in lines if line.startswith((b"{", b"data: "))]


def _document(line: bytes) -> Any:
    return DONE if line == b"[DONE]" else json.loads(line)


def _first_model(content: bytes, base: str) -> str:
    try:
        models = json.loads(content)["data"]
        return str(models[0]["id"])
    except (ValueError, KeyError, TypeError):
        raise Unreachable(
            f"{base}{MODELS_PATH} lists no models in the usual shape: is it the compat address?"
        ) from None
    except IndexError:
        raise ConsoleError(
            f"{base} serves no model now: `steersman status` says why, and `steersman state edit` names one"
        ) from None


def _said(content: bytes) -> str:
    """The sentence in an error's body, in whatever shape."""
    text = content.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except ValueError:
        return text
    if not isinstance(document, dict):
        return text
    inner = document.get("error", document)
    return str(inner.get("message", text)) if isinstance(inner, dict) else str(inner)


def _kind_of(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection ({reason_of(error)})"
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_SECONDS:g} s"
    return "the connection broke off"


def _with_bench_words(error: Exception, settings: BenchSettings) -> ConsoleError:
    if isinstance(error, aiohttp.ClientConnectorError) and type(error) is aiohttp.ClientConnectorError:
        return Unreachable(
            f"nobody answers at {settings.target.netloc} ({reason_of(error)}). Does the balancer run, and is "
            "this its --inference-addr (raw-prompt) or --compat-addr (completions, complete)?"
        )
    return unreachable(error, settings.target.netloc, CONNECT_SECONDS)
