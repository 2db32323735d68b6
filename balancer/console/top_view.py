"""One picture of `steersman top`. Pure: what is known in, lines out, for a terminal of at least 60 columns."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from balancer.console.agents_table import agent_lines, in_order_of_need
from balancer.console.fleet_snapshot import Agent, Fleet, Readiness
from balancer.console.metrics_reading import EMPTY, Numbers, Reading, has_restarted, numbers
from balancer.console.status_view import LEAST_COLUMNS, revisions
from balancer.console.text import clipped, columns_of, counted, duration, fitted, rate, seconds

WINDOW_READINGS: Final = 15
"""Percentiles are of what came within that many intervals."""
RATE_READINGS: Final = 10
"""Rates too; agents tell their figures once a heartbeat (5 s) when nothing else changes, so fewer would jump."""
LEAST_ROWS: Final = 12


@dataclass(slots=True)
class Picture:
    """What is known so far. `trouble`: by source, why it is not up to date; `away_since`: monotonic seconds."""

    address: str
    fleet: Fleet | None = None
    readiness: Readiness | None = None
    requests_waiting: int | None = None
    has_metrics: bool = True
    trouble: dict[str, str] = field(default_factory=dict)
    away_since: float | None = None
    fleet_at: float = 0.0
    readings: deque[Reading] = field(default_factory=lambda: deque(maxlen=WINDOW_READINGS))

    def add_reading(self, reading: Reading) -> None:
        """Those of a process that is gone are forgotten."""
        if self.readings and has_restarted(self.readings[-1], reading):
            self.readings.clear()
        self.readings.append(reading)

    def numbers(self, *, since_start: bool) -> Numbers:
        """Of the newest readings."""
        if len(self.readings) < 2:
            return Numbers()
        newest = self.readings[-1]
        recent = self.readings[max(len(self.readings) - 1 - RATE_READINGS, 0)]
        return numbers(recent, newest, EMPTY if since_start else self.readings[0])


def frame(picture: Picture, now: float, size: tuple[int, int], clock: str, *, since_start: bool = False) -> list[str]:
    """At most `size[1]` lines of at most `size[0]` columns. `clock`: the time of day, as it is shown."""
    width, rows = max(size[0], LEAST_COLUMNS), max(size[1], LEAST_ROWS)
    lines = [_title(picture, now, width, clock)]
    if picture.fleet is None:
        return [clipped(line, width) for line in [*lines, "", *_trouble(picture, "waiting for the first answer")]]
    lines += _figures(picture, since_start=since_start)
    if picture.away_since is not None:
        lines += _trouble(picture, "the balancer does not answer")
    lines += ["", *_agents(_aged(picture, now), width, rows - len(lines) - 2)]
    return [clipped(line, width) for line in lines][:rows]


def _title(picture: Picture, now: float, width: int, clock: str) -> str:
    if picture.away_since is not None:
        state = f"AWAY for {seconds(now - picture.away_since)}, trying again"
    elif picture.readiness is None:
        state = "connecting"
    elif picture.readiness.ready:
        state = "READY"
    else:
        state = f"NOT READY: {picture.readiness.reason}"
    left = f"steersman top  {picture.address}  {state}"
    return fitted(left, width - columns_of(clock) - 1) + " " + clock


def _figures(picture: Picture, *, since_start: bool) -> list[str]:
    fleet, found = picture.fleet, picture.numbers(since_start=since_start)
    assert fleet is not None
    waiting = "-" if picture.requests_waiting is None else f"{picture.requests_waiting:,}"
    first = (
        f"serving {revisions(fleet)}   {counted(len(fleet.agents), 'agent')}   "
        f"slots {fleet.slots_processing}/{fleet.slots_total} busy   waiting {waiting}"
    )
    if not picture.has_metrics:
        return [first, "no numbers: /metrics of this balancer does not answer"]
    rates = (
        f"tokens/s {rate(found.generated_per_second)}   prompt tokens/s {rate(found.prompt_per_second)}   "
        f"requests/s {rate(found.requests_per_second)}"
    )
    latencies = (
        f"first token p50 {duration(found.first_token_p50)}, p95 {duration(found.first_token_p95)}   "
        f"between tokens p50 {duration(found.between_tokens_p50)}, p95 {duration(found.between_tokens_p95)}"
    )
    return [first, rates, latencies]


def _trouble(picture: Picture, otherwise: str) -> list[str]:
    """Each sentence once: all sources of one balancer fail alike."""
    return [f"! {sentence}" for sentence in dict.fromkeys(picture.trouble.values())] or [otherwise]


def _aged(picture: Picture, now: float) -> Fleet:
    """The ages are those of the snapshot, which may be old: nothing is sent while nothing changes."""
    assert picture.fleet is not None
    passed = max(now - picture.fleet_at, 0.0) if picture.away_since is not None else 0.0
    if not passed:
        return picture.fleet
    return picture.fleet.model_copy(update={"agents": [_older(agent, passed) for agent in picture.fleet.agents]})


def _older(agent: Agent, passed: float) -> Agent:
    age = agent.link.last_heard_age_seconds
    older = None if age is None else age + passed
    return agent.model_copy(update={"link": agent.link.model_copy(update={"last_heard_age_seconds": older})})


def _agents(fleet: Fleet, width: int, rows: int) -> list[str]:
    """As many as there is room for, those first that need somebody, each issue below its agent."""
    ordered = in_order_of_need(fleet.agents)
    heading, *lines = agent_lines(fleet.model_copy(update={"agents": ordered}), width)
    shown: list[str] = []
    for at, (agent, line) in enumerate(zip(ordered, lines, strict=True)):
        block = [line, *(f"  ! {sentence}" for sentence in _sentences(agent))]
        is_last = at == len(ordered) - 1
        if len(shown) + len(block) + (0 if is_last else 1) > rows - 1:
            shown.append(f"and {counted(len(ordered) - at, 'more agent')}; `steersman status` lists all")
            break
        shown += block
    return [heading, *shown] if ordered else ["no agent is connected; `steersman status` says what to do"]


def _sentences(agent: Agent) -> Sequence[str]:
    sentences = [issue.sentence or issue.kind for issue in agent.issues]
    return [*sentences[:2], *([f"and {len(sentences) - 2} more issues"] if len(sentences) > 2 else [])]
