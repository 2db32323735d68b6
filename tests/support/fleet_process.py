"""A `steersman` subcommand as a process of its own, its log in a file that tests wait on."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from shared.settings_sources import Address, parse_address
from tests.support.child_environment import child_environment

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
END_SECONDS = 30.0

# The entry point that the installed command has, so that the tree under test runs whatever is installed.
_ENTRY = (sys.executable, "-c", "import sys; from shared.command_line import main; sys.exit(main())")


class FleetProcess:
    """Started at once; `end` it, whatever happened. Plain blocking calls, so that fixtures of a module can use it."""

    def __init__(self, log_path: Path, *arguments: str, inside: Sequence[str] = (), **environment: str) -> None:
        """`inside`: a command that is given the whole line and becomes it. `environment`: variables beside those of
        this process."""
        self.log_path = log_path
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [*inside, *_ENTRY, *arguments],
                cwd=ROOT,
                env=child_environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative for a signal that it did not handle."""
        return self._process.poll()

    @property
    def resident_bytes(self) -> int:
        """What it holds in memory now."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def address_of(self, service: str) -> Address:
        """Where a service of the balancer listens. Raises AssertionError with the log when it ends first."""
        pattern = re.compile(rf"balancer\.listeners: {service} listens on (\S+)")
        deadline = time.monotonic() + START_SECONDS
        while (found := pattern.search(self.log)) is None:
            assert self.exit_status is None, f"it ended early:\n{self.log}"
            assert time.monotonic() < deadline, f"it does not listen:\n{self.log}"
            time.sleep(0.02)
        return parse_address(found[1])

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait_exit(self, within_seconds: float = END_SECONDS) -> int:
        """Its exit status. Raises TimeoutExpired."""
        return self._process.wait(within_seconds)

    def end(self, *, is_asked: bool = False) -> None:
        """Ask (unless somebody did: a second SIGTERM insists), wait, insist. Idempotent."""
        if self._process.poll() is None:
            if not is_asked:
                self._process.terminate()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
