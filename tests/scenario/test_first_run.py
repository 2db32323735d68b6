"""docs/first-run.md, followed to the letter: its commands run in one shell, in order, in a scratch checkout and home.

What differs from a reader's machine: the ports, since others may listen on the usual ones; how often Prometheus looks;
and the virtual environment, which is that of the tests and counts as installed. Blocks marked `sh root` change the
machine, so they are named here and not run.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.prometheus_server import require_prometheus

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "first-run.md"
LIMIT_SECONDS = 90.0

NEED_ROOT = [
    "sudo apt-get update",
    "sudo install -D -m 0644 -t /var/lib/grafana/dashboards/steersman grafana/dashboards/*.json",
    "sudo deploy/install.sh --agent cpu",
]
"""The first line of each block that only root can run."""

SIGNS = (
    r"\bfirst\b",
    r'"Done"',
    r'"GeneratedToken":\{"ContentToken":"\{',
    r'"object":"text_completion"',
    r'"type":"completion"',
    r"(?m)^steersman_requests_total",
    r'(?m)^"8"$',
    r"(?m)^0$",
    r"would put /etc/steersman/agents/cpu.env",
)
"""What the reader sees, in this order or another."""

PORTS = ("8060", "8061", "8070", "9095")


@dataclass(frozen=True, slots=True)
class Block:
    """`needs_root`: it is marked so."""

    text: str
    needs_root: bool


def blocks() -> list[Block]:
    found = re.findall(r"^```sh( root)?\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [Block(text, bool(mark)) for mark, text in found]


def test_no_block_is_left_out_but_those_for_root() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [block.text.splitlines()[0] for block in blocks() if block.needs_root] == NEED_ROOT
    assert page.count("\n```sh") == len(blocks()), "a block that this test does not see"
    assert "sudo" not in "".join(block.text for block in blocks() if not block.needs_root)


@pytest.fixture
def ports() -> dict[str, str]:
    """For each usual port a free one."""
    free = {}
    with contextlib.ExitStack() as taken:
        for port in PORTS:
            listener = taken.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
            free[port] = str(listener.getsockname()[1])
    return free


@pytest.fixture
def checkout(tmp_path: Path, ports: dict[str, str]) -> Path:
    """What a reader has after a `git clone`, and an environment in which `make install` finds its work done."""
    folder = tmp_path / "steersman"
    folder.mkdir()
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".") and entry.name != "grafana":
            (folder / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "grafana", folder / "grafana", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    prometheus = folder / "grafana" / "prometheus" / "prometheus.yml"
    text = with_ports(prometheus.read_text(encoding="utf-8"), ports)
    assert "scrape_interval: 15s" in text
    prometheus.write_text(text.replace("scrape_interval: 15s", "scrape_interval: 1s"), encoding="utf-8")
    environment = folder / ".venv"
    environment.mkdir()
    for name in ("bin", "lib"):
        (environment / name).symlink_to(Path(sys.prefix) / name)
    for stamp in (".has-agent", ".has-tests"):
        (environment / stamp).touch()
    return folder


def with_ports(text: str, ports: dict[str, str]) -> str:
    for usual, free in ports.items():
        text = re.sub(rf"127\.0\.0\.1:{usual}\b", f"127.0.0.1:{free}", text)
    return text


def shell_environment(home: Path, ports: dict[str, str]) -> dict[str, str]:
    addresses = {"INFERENCE": ports["8061"], "MANAGEMENT": ports["8060"], "COMPAT": ports["8070"]}
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "STEERSMAN_AGENT_THREADS": "1",  # as in RunningFleet.add_agent
        "STEERSMAN_MANAGEMENT_ADDR": f"127.0.0.1:{ports['8060']}",
        **{f"STEERSMAN_BALANCER_{name}_ADDR": f"127.0.0.1:{port}" for name, port in addresses.items()},
    }


@contextmanager
def shell(script: str, folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """One bash that runs it all and stops at the first command that fails; whatever it left running is ended."""
    process = subprocess.Popen(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_page_leads_from_the_checkout_to_figures_in_prometheus(
    checkout: Path, ports: dict[str, str], tmp_path: Path
) -> None:
    require_prometheus()  # not marked as one of the model: without Prometheus it may be skipped
    commands = [block.text for block in blocks() if not block.needs_root]
    script = "\n".join(f"echo '== block {number}'\n{text}" for number, text in enumerate(commands, 1))
    home = tmp_path / "home"
    home.mkdir()
    with shell(with_ports(script, ports), checkout, shell_environment(home, ports)) as process:
        try:
            output, _ = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired as late:
            output = late.output.decode() if isinstance(late.output, bytes) else late.output or ""
    logs = "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in home.rglob("*.log"))
    assert process.returncode == 0, f"{output}\n{logs}"
    for sign in SIGNS:
        assert re.search(sign, output), f"{sign} is not in\n{output}\n{logs}"
    assert "Traceback" not in logs, logs
