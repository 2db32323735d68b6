"""A fleet with a real model, a Redis and a Prometheus that watches it, through half a minute in which everything that
the dashboards draw happens once. What Prometheus answers afterwards is kept, and all processes are gone.

watched = asyncio.run(watch(folder, ["sum(steersman_slots)"]))
watched.answers["sum(steersman_slots)"]
"""

import asyncio
import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.completion_client import CompletionClient
from tests.support.prometheus_server import Answered, PrometheusServer, prometheus_server
from tests.support.redis_server import RedisServer
from tests.support.running_fleet import COUNTING, RunningFleet, desired_state, running_fleet
from tests.support.tiny_model import demo_model_path

SLOTS = 2
AGENTS = ("gpu-0", "gpu-1")
PROMPT_TOKENS = [504, 3575, 282, 4649, 314]  # The capital of France is
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"capital": {"enum": ["Paris", "Lyon"]}, "inhabitants": {"type": "integer", "maximum": 9_999_999}},
    "required": ["capital", "inhabitants"],
    "additionalProperties": False,
}
REQUESTS = 8 + 4 + 1 + 1 + SLOTS * len(AGENTS) + 1  # in the order of what follows
FLAGS = ("--agent-metrics", "--heartbeat-interval", "1s", "--buffered-request-timeout", "60s")


@dataclass(frozen=True, slots=True)
class Watched:
    """`answers`: by expression, as a curve from before the agents came until the end. `exposition`: the balancer's
    page."""

    answers: dict[str, list[Answered]]
    rules: list[dict[str, Any]]
    exposition: str


async def watch(folder: Path, expressions: Sequence[str]) -> Watched:
    """Everything, from nothing to nothing; about twenty seconds."""
    async with _redis() as redis:
        with (
            running_fleet(folder, "--state-database", redis.url, *FLAGS) as fleet,
            prometheus_server(folder, {"steersman": [str(fleet.management)]}) as prometheus,
        ):
            since = time.time()
            await _live_through_it(fleet, prometheus)
            until = time.time() + 1.0  # a step further, so that the last look is among them
            answers = {one: prometheus.range(one, since, until) for one in expressions}
            exposition = fleet.request("GET", "/metrics")[2].decode()
            rules = prometheus.rules()
    return Watched(answers, rules, exposition)


@contextlib.asynccontextmanager
async def _redis() -> AsyncIterator[RedisServer]:
    folder = Path(tempfile.mkdtemp(prefix="steersman-redis-"))
    server = RedisServer(folder)
    try:
        await server.start()
        yield server
    finally:
        await server.kill()
        shutil.rmtree(folder, ignore_errors=True)


async def _live_through_it(fleet: RunningFleet, prometheus: PrometheusServer) -> None:
    for name in AGENTS:
        fleet.add_agent(slots=SLOTS, name=name)
    prometheus.wait_for('ALERTS{alertname="SteersmanNoReadySlot"}')  # nobody serves yet
    fleet.serve(demo_model_path(), context_size=2048)
    # What is there from the first look on has no rate before the second.
    prometheus.wait_for("count_over_time(steersman_agent_engine_steps_total[10s]) >= 2")
    await asyncio.gather(_plain(fleet), _constrained(fleet), _wrong(fleet), _left(fleet))
    # An agent that is lost takes along what it has not told yet: figures come with its heartbeats.
    prometheus.wait_for('sum(steersman_fleet_constraints_total{result="refused"}) > 0')
    prometheus.wait_for('sum(steersman_fleet_constraints_total{result="cached"}) > 0')
    await _lose_an_agent(fleet)
    fleet.put(desired_state(demo_model_path(), context_size=2048, temperature=0.5))
    fleet.wait_agents(lambda agent: bool(agent["accepting"] and agent["applied_revision"] == 2))
    await fleet.ask("The end:", 8)
    prometheus.wait_for("changes(steersman_desired_state_revision[60s]) > 0")
    # What happened last has a rate.
    prometheus.wait_for(f"sum(steersman_requests_total) == {REQUESTS}")
    prometheus.wait_for('sum(increase(steersman_requests_total{failure="agent_lost"}[60s])) > 0')
    prometheus.wait_for("increase(steersman_agents_lost_total[60s]) > 0")


async def _plain(fleet: RunningFleet) -> None:
    """More than there are slots, so that some wait; each of the three endpoints."""
    model = demo_model_path().stem
    tokens = CompletionClient(
        fleet.compat, "/v1/completions", {"model": model, "prompt": PROMPT_TOKENS, "max_tokens": 8}
    )
    text = CompletionClient(
        fleet.compat, "/v1/complete", {"model": model, "prompt": "The capital of France is", "max_tokens_to_sample": 8}
    )
    await asyncio.gather(
        *(fleet.ask(COUNTING, 12) for _ in range(4)),
        *(asyncio.to_thread(tokens.chunks) for _ in range(2)),
        asyncio.to_thread(tokens.document),
        asyncio.to_thread(text.document),
    )


async def _constrained(fleet: RunningFleet) -> None:
    grammar = {"type": "json_schema", "schema": SCHEMA}
    for _ in range(3):  # compiled once, then cached
        answer = await fleet.ask("The capital of France, as JSON: ", 60, grammar)
        assert answer.finish_reason == "stop", answer.lines
    bad = await fleet.ask("Pick one:", 8, {"type": "gbnf", "grammar": "root ::= foo", "root": "root"})
    assert bad.variant[0] == "GrammarInitializationFailed"


async def _wrong(fleet: RunningFleet) -> None:
    client = CompletionClient(fleet.compat, "/v1/completions", {"model": "nobody", "prompt": PROMPT_TOKENS})
    status, _ = await asyncio.to_thread(client.ask)
    assert status == 404


async def _left(fleet: RunningFleet) -> None:
    async with fleet.client(COUNTING, 400) as client:
        await client.read_line()


async def _lose_an_agent(fleet: RunningFleet) -> None:
    """Killed while it answers; those whom the other one answers have seen enough."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(fleet.client(COUNTING, 400)) for _ in range(SLOTS * len(AGENTS))]
        first_lines = [await client.read_line() for client in clients]
        fleet.agents[1].send(signal.SIGKILL)
        pairs = zip(clients, first_lines, strict=True)
        lost = [client for client, line in pairs if line and line["Response"]["generated_by"] == AGENTS[1]]
        assert len(lost) == SLOTS, first_lines
        for client in lost:
            answer = await client.read_all()
            assert answer.error is not None
            assert answer.error[0] == 502
    fleet.agents[1].wait_exit()
