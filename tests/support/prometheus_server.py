"""A real Prometheus: a process of its own, on a free loopback port, with its data in a folder that a test throws away.

with prometheus_server(folder, {"steersman": ["127.0.0.1:8060"]}) as prometheus:
    prometheus.wait_for("steersman_slots > 0")
    prometheus.range("steersman_slots", since, until)
"""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.redis_server import free_loopback_port

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "grafana/prometheus"
PROGRAM = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")
INTERVAL_SECONDS = 1
_START_SECONDS = 30.0
_WAIT_SECONDS = 30.0
_END_SECONDS = 20.0
_PORT_TRIES = 5


class PrometheusDidNotStart(Exception):
    """It ended or was not ready in time; its log follows."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One series: its labels, and (time, value) pairs; an instant has one of them."""

    labels: dict[str, str]
    points: list[tuple[float, float]]

    @property
    def numbers(self) -> list[float]:
        """Its values without those that are none."""
        return [value for _, value in self.points if value == value]


@dataclass(slots=True)
class PrometheusServer:
    """Answers about its query API. Plain blocking calls."""

    address: str
    log_path: Path
    process: "subprocess.Popen[bytes]" = field(repr=False)

    def instant(self, expression: str) -> list[Answered]:
        """What is so now. Raises AssertionError with the reason when it is no valid expression."""
        found = self._ask("query", query=expression)["result"]
        return [Answered(one["metric"], [(one["value"][0], float(one["value"][1]))]) for one in found]

    def range(self, expression: str, since: float, until: float, step_seconds: float = 1.0) -> list[Answered]:
        """What was so. Raises AssertionError with the reason when it is no valid expression."""
        asked = {"query": expression, "start": f"{since:.3f}", "end": f"{until:.3f}", "step": f"{step_seconds:g}"}
        found = self._ask("query_range", **asked)["result"]
        return [Answered(one["metric"], [(at, float(value)) for at, value in one["values"]]) for one in found]

    def rules(self) -> list[dict[str, Any]]:
        """Alerts and recording rules with their `health`, `lastError` and, of alerts, those that are active."""
        groups = self._ask("rules")["groups"]
        return [{**rule, "group": group["name"]} for group in groups for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        """What is scraped, with `health` and `lastError`."""
        found: list[dict[str, Any]] = self._ask("targets")["activeTargets"]
        return found

    def wait_for(self, expression: str) -> None:
        """Until the expression has a result. Raises AssertionError."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while not self.instant(expression):
            assert time.monotonic() < deadline, f"no result of {expression}; targets: {self.targets()}"
            time.sleep(0.1)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5.0) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def end(self) -> None:
        """Ask, wait, insist."""
        self.process.terminate()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _ask(self, question: str, **parameters: str) -> dict[str, Any]:
        url = f"http://{self.address}/api/v1/{question}"
        body = urllib.parse.urlencode(parameters).encode() if parameters else None
        try:
            with urllib.request.urlopen(url, body, timeout=20.0) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        found: dict[str, Any] = document["data"]
        return found


def require_prometheus() -> str:
    """The program. Without it: in CI the test fails, elsewhere it is skipped, and says so."""
    if PROGRAM is not None and PROMTOOL is not None:
        return PROGRAM
    words = (
        "Prometheus and promtool are not installed, so dashboards, alerts and rules were not run; "
        "as root: make install-prometheus"
    )
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)


@contextmanager
def prometheus_server(folder: Path, jobs: Mapping[str, Sequence[str]]) -> Iterator[PrometheusServer]:
    """Runs our example's rules and alerts every second over the targets of each job. Raises PrometheusDidNotStart."""
    program = require_prometheus()
    config = folder / "prometheus.yml"
    config.write_text(json.dumps(_config(jobs)), encoding="utf-8")  # which is YAML too
    server = _started(program, folder, config)
    try:
        yield server
    finally:
        server.end()


def _config(jobs: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    example = yaml.safe_load((FILES / "prometheus.yml").read_text(encoding="utf-8"))
    scrapes = {scrape["job_name"]: scrape for scrape in example["scrape_configs"]}
    every = f"{INTERVAL_SECONDS}s"
    return {
        **example,
        "global": {"scrape_interval": every, "evaluation_interval": every, "scrape_timeout": every},
        "rule_files": [str(FILES / name) for name in example["rule_files"]],
        "scrape_configs": [
            {**scrapes[job], "static_configs": [{"targets": list(targets)}]} for job, targets in jobs.items()
        ],
    }


def _started(program: str, folder: Path, config: Path) -> PrometheusServer:
    for remaining in reversed(range(_PORT_TRIES)):
        address = f"127.0.0.1:{free_loopback_port()}"
        log_path = folder / "prometheus.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [
                    *(program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"),
                    *(f"--web.listen-address={address}", "--storage.tsdb.retention.time=1d", "--log.level=warn"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        server = PrometheusServer(address, log_path, process)
        if _becomes_ready(server):
            return server
        server.end()
        words = log_path.read_text(encoding="utf-8", errors="replace")
        if not remaining or "address already in use" not in words:
            raise PrometheusDidNotStart(words[-3000:])
    raise AssertionError("unreachable")


def _becomes_ready(server: PrometheusServer) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    while not server.is_ready():
        if server.process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
