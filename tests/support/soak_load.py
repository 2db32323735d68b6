"""The load of a soak: clients one after another in some lanes, and now and then more at once than the room holds."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from shared.settings_sources import Address
from tests.support.soak_clients import Plan, WrongAnswer, carry_out, random_plan

LANES: Final = 6
BURST_CLIENTS: Final = 40
MAX_PROBLEMS: Final = 20


@dataclass(slots=True)
class Tally:
    """How many clients of which kind had which outcome, and who was wronged."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.outcomes.total()

    def by_outcome(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for (_, outcome), count in self.outcomes.items():
            counts[outcome] += count
        return counts

    def note_problem(self, sentence: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(sentence)


@dataclass(slots=True)
class Load:
    """`run` as often as wanted; the same seed makes the same plans, though not at the same moments."""

    address: Address
    seed: int
    tally: Tally = field(default_factory=Tally)
    _runs: int = 0

    async def run(self, seconds: float) -> None:
        """Returns when the time is over and every client of it has its answer."""
        self._runs += 1
        deadline = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            for lane in range(LANES):
                tasks.create_task(self._lane(self._random(f"lane {lane}"), deadline), name=f"lane {lane}")
            tasks.create_task(self._bursts(self._random("bursts"), deadline), name="bursts")

    def _random(self, name: str) -> Random:
        return Random(f"{self.seed}/{self._runs}/{name}")

    async def _lane(self, random: Random, deadline: float) -> None:
        while time.monotonic() < deadline:
            await self._serve(random_plan(random))
            await asyncio.sleep(random.choice((0.0, random.uniform(0.0, 0.5))))

    async def _bursts(self, random: Random, deadline: float) -> None:
        while (now := time.monotonic()) < deadline:
            await asyncio.sleep(min(random.uniform(2.0, 8.0), deadline - now))
            async with asyncio.TaskGroup() as clients:
                for number in range(BURST_CLIENTS):
                    clients.create_task(self._serve(random_plan(random)), name=f"client {number} of a burst")

    async def _serve(self, plan: Plan) -> None:
        began = time.monotonic()
        try:
            outcome = await carry_out(plan, self.address)
        except (WrongAnswer, OSError, AssertionError) as wrong:
            outcome = "WRONG"
            after = time.monotonic() - began
            self.tally.note_problem(f"a client ({plan.kind}, {plan.leave}), after {after:.1f} s: {wrong!r}")
        self.tally.outcomes[plan.kind, outcome] += 1
