"""What a soak looks at: the fleet's own figures all the time, memory at comparable moments, logs at the end."""

import asyncio
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.fleet_process import FleetProcess
from tests.support.running_fleet import RunningFleet

MEBIBYTE: Final = 1024 * 1024
LOOK_EVERY_SECONDS: Final = 0.25

_BAD_LINE: Final = re.compile(r" (ERROR|CRITICAL) |Traceback \(most recent call last\)|was never (awaited|retrieved)")


@dataclass(slots=True)
class Watch:
    """`problems`: where the figures contradicted themselves."""

    fleet: RunningFleet
    max_buffered: int
    fleets_slots: int
    looks: int = 0
    most_buffered: float = 0
    most_processing: float = 0
    problems: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """For ever; cancel it."""
        while True:
            await asyncio.to_thread(self._look)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    def _look(self) -> None:
        gauges, agents = self.fleet.gauges(), self.fleet.get("/api/v1/agents")["agents"]
        self.looks += 1
        self.most_buffered = max(self.most_buffered, gauges["requests_buffered"])
        self.most_processing = max(self.most_processing, gauges["slots_processing"])
        # What an agent that was lost had not begun to answer waits outside the room's bound.
        if not 0 <= gauges["requests_buffered"] <= self.max_buffered + self.fleets_slots:
            self._note(f"{gauges['requests_buffered']} requests in a room for {self.max_buffered}")
        for agent in agents:
            if not 0 <= agent["slots_processing"] <= agent["desired_slots_total"]:
                self._note(f"an agent's slots: {agent['slots_processing']} of {agent['desired_slots_total']}")

    def _note(self, sentence: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(sentence)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one process holds."""

    resident_bytes: int
    open_files: int
    threads: int

    @classmethod
    def of(cls, process: FleetProcess) -> "Footprint":
        folder = Path(f"/proc/{process.pid}")
        return cls(process.resident_bytes, len(list((folder / "fd").iterdir())), len(list((folder / "task").iterdir())))

    def __str__(self) -> str:
        return f"{self.resident_bytes / MEBIBYTE:8.1f} MiB {self.open_files:4} files {self.threads:3} threads"


def bad_lines(folder: Path) -> list[str]:
    """What no log of the fleet may hold, with the lines that follow."""
    found = []
    for path in sorted(folder.glob("*.log")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines):
            if _BAD_LINE.search(line):
                found.append("\n".join([f"{path.name}:", *lines[number : number + 25]]))
    return found


def processes_that_name(word: str) -> list[int]:
    """Process ids whose command line holds `word`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue  # it ended while we looked
    return found
