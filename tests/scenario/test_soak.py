"""Random load on the real system while everything that may befall it does: nothing is lost, nothing is left behind.

A minute of it in `make test`, ten in `make soak`.
`STEERSMAN_SOAK_SEED` and `STEERSMAN_SOAK_SECONDS` choose others; the seed is printed. The short form always takes the
same seed.
"""

import asyncio
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.support import budgets
from tests.support.redis_server import RedisServer
from tests.support.running_fleet import RunningFleet, running_fleet
from tests.support.soak_clients import BAD_BODY, DONE, LEFT, MAX_REQUEST_BYTES, ROOM_FULL
from tests.support.soak_faults import HEARTBEAT_SECONDS, SLOTS, STEADY, Faults
from tests.support.soak_load import Load
from tests.support.soak_watch import MEBIBYTE, Footprint, Watch, bad_lines, processes_that_name
from tests.support.tiny_model import demo_model_path, tiny_model_path

SECONDS: Final = float(os.environ.get("STEERSMAN_SOAK_SECONDS", budgets.current().soak_seconds))
IS_LONG: Final = SECONDS >= 600
WARM_UP_PART: Final = 0.3  # minute 3 of 10
AROUND_IT_SECONDS: Final = 240.0  # start, two pauses for readings, end: on a busy machine

MAX_BUFFERED: Final = 12
FLEETS_SLOTS: Final = 2 * SLOTS
BALANCER_FLAGS: Final = (
    *("--max-buffered-requests", str(MAX_BUFFERED)),
    *("--buffered-request-timeout", "3s"),
    *("--max-request-bytes", str(MAX_REQUEST_BYTES)),
    *("--heartbeat-interval", f"{HEARTBEAT_SECONDS:g}s"),
)
PROBES: Final = tuple(
    f"{number}. Say something about the sea and the number {number}." for number in range(FLEETS_SLOTS)
)

pytestmark = [pytest.mark.model, pytest.mark.timeout(SECONDS + AROUND_IT_SECONDS)]


@dataclass(slots=True)
class Soak:
    """The parts of one run."""

    fleet: RunningFleet
    faults: Faults
    load: Load
    watch: Watch
    readings: list[dict[str, Footprint]] = field(default_factory=list)

    async def phase(self, seconds: float) -> None:
        """Load and faults together, then quiet and a reading."""
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self.watch.run(), name="watch")
            async with asyncio.TaskGroup() as both:
                both.create_task(self.load.run(seconds), name="load")
                both.create_task(self.faults.run(seconds), name="faults")
            watching.cancel()
        await self.settle()
        await asyncio.to_thread(self.read_footprints)

    async def settle(self) -> None:
        """Nothing waits or runs, and all agents serve the same, loaded anew and used in the same way."""
        await self.fleet.wait_idle()
        for state in (self.faults.other, self.faults.reference):
            await self.faults.put(state)
            await asyncio.to_thread(self.wait_applied)
        for _ in range(3):
            answers = await asyncio.gather(*(self.fleet.ask(prompt, max_tokens=8) for prompt in PROBES))
            assert all(answer.finish_reason in ("stop", "length") for answer in answers)
        await self.fleet.wait_idle()

    def wait_applied(self) -> None:
        wanted = self.fleet.fleet()["wanted_revision"]
        self.fleet.wait_agents(lambda agent: agent["applied_revision"] == wanted and agent["accepting"])

    def read_footprints(self) -> None:
        reading = {"balancer": Footprint.of(self.fleet.balancer), f"agent {STEADY}": Footprint.of(self.faults.steady)}
        self.readings.append(reading)

    def summary(self) -> str:
        lines = [f"{self.load.tally.total} requests; seed {self.load.seed}"]
        lines += [f"  {count:6}  {outcome}" for outcome, count in sorted(self.load.tally.by_outcome().items())]
        lines += [f"faults: {self.faults.counts.total()}"]
        lines += [f"  {count:6}  {name}" for name, count in sorted(self.faults.counts.items())]
        lines += [f"most at once: {self.watch.most_processing:.0f} slots busy, {self.watch.most_buffered:.0f} waiting"]
        for part, reading in zip((WARM_UP_PART, 1.0), self.readings, strict=False):
            lines += [f"after {part * SECONDS:4.0f} s: {footprint}  {name}" for name, footprint in reading.items()]
        return "\n".join(lines)


async def test_random_load_with_everything_that_may_befall_the_fleet_loses_nothing_and_leaves_nothing(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    seed = _seed()
    print(f"\nsoak of {SECONDS:.0f} s, seed {seed}")
    models = demo_model_path(), tiny_model_path(tmp_path)
    with running_fleet(tmp_path, "--state-database", redis_server.unix_url, *BALANCER_FLAGS) as fleet:
        faults = Faults(fleet, redis_server, models, seed)
        soak = Soak(fleet, faults, Load(fleet.inference, seed), Watch(fleet, MAX_BUFFERED, FLEETS_SLOTS))
        try:
            faults.start_agents()
            await faults.put(faults.reference)
            await asyncio.to_thread(soak.wait_applied)
            await soak.phase(WARM_UP_PART * SECONDS)
            await soak.phase((1 - WARM_UP_PART) * SECONDS)
            check_quiet(fleet)
        finally:
            print(soak.summary())
        pids = check_children(fleet)
    check_nothing_left(soak, pids, tmp_path)


def _seed() -> int:
    given = os.environ.get("STEERSMAN_SOAK_SEED")
    if given is not None:
        return int(given)
    return secrets.randbits(32) if budgets.current().form == "long" else 20_250_101


def check_quiet(fleet: RunningFleet) -> None:
    """By everybody's count nothing waits and nothing runs, and every agent has what is wanted."""
    assert fleet.gauges() == {"slots_processing": 0, "slots_total": FLEETS_SLOTS, "requests_buffered": 0}
    assert fleet.get("/api/v1/buffered_requests") == {"buffered_requests_current": 0}
    for agent in fleet.get("/api/v1/agents")["agents"]:
        assert agent["slots_processing"] == 0
        assert agent["slots_total"] == agent["desired_slots_total"] == SLOTS
        assert agent["state_application_status"] == "Applied"
        assert agent["issues"] == []
    for agent in fleet.fleet()["agents"]:
        assert agent["slots_processing_for_all_balancers"] == 0
        assert agent["used_cells"] == agent["cached_tokens"] <= agent["context_cells"]


def check_children(fleet: RunningFleet) -> list[int]:
    """Nobody has started processes of their own."""
    pids = [process.pid for process in (fleet.balancer, *fleet.agents)]
    for pid in pids:
        assert all(not path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return pids


def check_nothing_left(soak: Soak, pids: list[int], folder: Path) -> None:
    tally = soak.load.tally
    assert not tally.problems, "\n".join(tally.problems)
    assert not soak.watch.problems, "\n".join(soak.watch.problems)
    bad = bad_lines(folder)
    assert not bad, "\n\n".join(bad[:5])
    assert [process.exit_status for process in (*soak.fleet.agents, soak.fleet.balancer)] == [0, 0, 0]
    assert processes_that_name(str(soak.fleet.management)) == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    outcomes = tally.by_outcome()
    assert all(outcomes[wanted] for wanted in (DONE, LEFT, BAD_BODY, ROOM_FULL)), outcomes
    check_memory(*soak.readings)


def check_memory(before: dict[str, Footprint], after: dict[str, Footprint]) -> None:
    """Within 5 % after ten minutes; the short form only shows what leaks fast."""
    for name, first in before.items():
        last = after[name]
        allowed = first.resident_bytes * 1.05 if IS_LONG else first.resident_bytes * 1.15 + 8 * MEBIBYTE
        assert last.resident_bytes <= allowed, f"{name}: {first} -> {last}"
        assert last.open_files <= first.open_files + 8, f"{name}: {first} -> {last}"
        assert last.threads <= first.threads + 8, f"{name}: {first} -> {last}"
