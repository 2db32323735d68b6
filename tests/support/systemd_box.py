"""A real systemd with its journal, in namespaces of its own, for a test that wants to see the units run.

with systemd_box(folder) as box:
    box.run("systemctl", "start", "steersman-balancer")

Its root is an overlay of this host's, thrown away at the end; the program is this repository on this interpreter. It
needs root and a kernel that lets root make namespaces: where that is not so, a container mostly, the test is named as
not run, in CI too, since a CI cannot be asked for either.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
BOX: Final = "/opt/steersman-box"
PROGRAM: Final = f"{BOX}/steersman"
SYSTEMD: Final = Path("/lib/systemd/systemd")
UNSHARE: Final = ("unshare", "--mount", "--pid", "--fork", "--cgroup", "--uts", "--net", "--kill-child")
TOOLS: Final = ("unshare", "nsenter", "mount", "pivot_root", "systemctl", "journalctl", "curl")
BOOT_SECONDS: Final = 40.0
COMMAND_SECONDS: Final = 100.0
WAIT_SECONDS: Final = 60.0
_SET_PARENT_DEATH_SIGNAL: Final = 1  # linux/prctl.h


def why_not() -> str | None:
    """What this host lacks; None: it has all."""
    if os.geteuid() != 0:
        return "root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or not SYSTEMD.exists():
        return f"{missing[0] if missing else SYSTEMD}"
    if own_control_group() is None:
        return "control groups of version 2"
    tried = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "box", "/mnt"], capture_output=True, timeout=20)
    return None if tried.returncode == 0 else "a kernel or a container that lets root make namespaces"


def not_run(reason: str) -> NoReturn:
    """Skip, and say so in one way."""
    pytest.skip(f"NOT RUN: the units were not seen under a real systemd, which needs {reason}")


@dataclass(frozen=True, slots=True)
class SystemdBox:
    """One that runs. Plain blocking calls."""

    init: int

    def path(self, place: str) -> Path:
        """An absolute path of it, as seen from here."""
        return Path(f"/proc/{self.init}/root{place}")

    def run(self, *words: str, status: int = 0) -> str:
        """What a command in it says on both streams. Raises AssertionError for another exit status."""
        inside = ["nsenter", "-t", str(self.init), "-m", "-p", "-u", "-C", "-n", "-r", "-w", "env", "-i"]
        environment = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "SYSTEMD_PAGER=cat"]
        done = subprocess.run(
            [*inside, *environment, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}\n{self.journal()}"
        return done.stdout

    def write(self, place: str, text: str, mode: int = 0o644) -> None:
        """A whole file; its folder is there."""
        path = self.path(place)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    def shows(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", unit, "--property", name, "--value").strip()

    def journal(self, *words: str) -> str:
        """Its lines, all of them without words."""
        return subprocess.run(
            ["nsenter", "-t", str(self.init), "-m", "-p", "-r", "-w", "journalctl", "--no-pager", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
        ).stdout

    def wait_until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Raises AssertionError with the journal."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, f"never: {what}\n{self.journal()}"
            time.sleep(0.1)


def own_control_group() -> Path | None:
    """The folder of the version 2 group that this process is in; None: there is none."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
    places = [mount[1] for mount in mounts if mount[2] == "cgroup2"]
    groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    names = [line.removeprefix("0::") for line in groups if line.startswith("0::")]
    return Path(places[0] + names[0]) if places and names else None


@contextmanager
def new_control_group() -> Iterator[Path]:
    """One below our own, so that the systemd in it touches no unit of this host; gone afterwards. Raises OSError."""
    own = own_control_group()
    assert own is not None
    group = own / f"steersman-box-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        deadline = time.monotonic() + WAIT_SECONDS  # what was killed takes a moment to leave
        while "populated 1" in (group / "cgroup.events").read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        for folder, _, _ in os.walk(group, topdown=False):
            os.rmdir(folder)


@contextmanager
def systemd_box(folder: Path) -> Iterator[SystemdBox]:
    """`folder`: an empty one. Skips the test where it cannot be."""
    if (lacks := why_not()) is not None:
        not_run(lacks)
    with ExitStack() as stack:
        try:
            group = stack.enter_context(new_control_group())
        except OSError as error:
            not_run(f"a control group of its own ({error})")
        process = stack.enter_context(_booting(folder, group))
        box = SystemdBox(_init_of(process, folder / "console.log"))
        interpreter = Path(os.path.realpath(sys.executable)).relative_to(Path(sys.base_prefix).resolve())
        box.write(PROGRAM, _program(interpreter), 0o755)
        yield box


@contextmanager
def _booting(folder: Path, group: Path) -> Iterator["subprocess.Popen[bytes]"]:
    (folder / "box").mkdir()

    def enter() -> None:
        """It ends with the test, however that ends."""
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        (group / "cgroup.procs").write_text("0")

    boot = ("bash", str(ROOT / "tests/support/boot_systemd.sh"), str(folder / "box"), str(ROOT))
    with (folder / "console.log").open("wb") as output:
        process = subprocess.Popen(
            [*UNSHARE, *boot, sys.base_prefix, sysconfig.get_path("purelib")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=enter,
        )
    try:
        yield process
    finally:
        process.kill()  # which is the end of all in it (--kill-child)
        process.wait()


def _init_of(process: "subprocess.Popen[bytes]", console: Path) -> int:
    """The process that is number 1 in there, once it has booted."""
    deadline = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, LookupError):
            init = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
            if Path(f"/proc/{init}/comm").read_text() == "systemd\n" and _has_booted(init):
                return init
        time.sleep(0.1)
    not_run(f"namespaces in which it boots; it said: {console.read_text(errors='replace')[-1000:]}")


def _has_booted(init: int) -> bool:
    words = ["nsenter", "-t", str(init), "-m", "-p", "-r", "-w", "systemctl", "is-active", "--quiet", "box.target"]
    return subprocess.run(words, capture_output=True, timeout=COMMAND_SECONDS).returncode == 0


def _program(interpreter: Path) -> str:
    """`steersman` as a shell script, for an environment that lies elsewhere in there."""
    return (
        "#!/bin/sh\n"
        f"export PYTHONHOME={BOX}/python PYTHONPATH={BOX}/source:{BOX}/packages PYTHONDONTWRITEBYTECODE=1\n"
        f"export LD_LIBRARY_PATH={BOX}/python/lib\n"  # of an interpreter that has a shared library of its own
        f'exec {BOX}/python/{interpreter} -c "from shared.command_line import main; raise SystemExit(main())" "$@"\n'
    )
