"""The whole system as it is deployed: a balancer process and agent processes with real models, on loopback ports.

@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with running_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.add_agent(slots=4)
        fleet.serve(demo_model_path(), context_size=2048)
        yield fleet

async def test_...(fleet):
    answer = await fleet.ask("2+2=", max_tokens=8)
    assert answer.finish_reason == "length"
"""

import asyncio
import http.client
import itertools
import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.settings_sources import Address
from tests.support import agent_states
from tests.support.fleet_process import FleetProcess
from tests.support.native_stream import RAW_PROMPT_PATH, Generated, NativeStream
from tests.support.raw_http import RawConnection

DEADLINE_SECONDS = 90.0
HTTP_SECONDS = 20.0
STATE_PATH = "/api/v1/balancer_desired_state"

# Small, greedy and without penalties, so that answers can be compared.
GREEDY: dict[str, Any] = {
    "context_size": 1024,
    "n_batch": 512,
    "k_cache_dtype": "F16",
    "v_cache_dtype": "F16",
    "temperature": 0.0,
    "penalty_repeat": 1.0,
    "penalty_presence": 0.0,
}

COUNTING = "1, 2, 3, 4, 5, 6, 7, 8,"
"""The demo model goes on counting for as long as it may: an answer that does not end by itself."""

Json = dict[str, Any]


def desired_state(model: Path | str, template: str | None = None, **parameters: Any) -> Json:
    """The document of a PUT; GREEDY unless told otherwise. "None" is no model."""
    state = agent_states.state(str(model), template, **(GREEDY | parameters))
    return {**state.document(), "use_chat_template_override": template is not None}


@dataclass
class RunningFleet:
    """One balancer and its agents. Methods without `async` block, and are for fixtures and threads."""

    folder: Path
    balancer: FleetProcess
    agents: list[FleetProcess] = field(default_factory=list)
    inference: Address = field(init=False)
    management: Address = field(init=False)
    compat: Address = field(init=False)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.management = self.balancer.address_of("management")
        self.inference = self.balancer.address_of("inference")
        self.compat = self.balancer.address_of("compat")

    # Operating it

    def add_agent(self, *flags: str, slots: int, name: str | None = None) -> FleetProcess:
        """Start one more agent; it joins when it is up.

        One thread unless `flags` say otherwise: llama.cpp's threads wait for each other hundreds of times a step,
        which on a machine that others use takes a scheduler's slice each.
        """
        if "--threads" not in flags:
            flags = ("--threads", "1", *flags)
        number = next(self._numbers)
        agent = FleetProcess(
            self.folder / f"agent-{number}.log",
            *("agent", "--management-addr", str(self.management), "--slots", str(slots)),
            *("--name", name or f"agent-{number}", *flags),
        )
        self.agents.append(agent)
        return agent

    def put(self, document: Json) -> int:
        """PUT the desired state; the revision it got."""
        status, _, body = self.request("PUT", STATE_PATH, document)
        assert status == 204, (status, body)
        revision: int = self.fleet()["wanted_revision"]
        return revision

    def serve(self, model: Path | str, **parameters: Any) -> Json:
        """PUT a state and wait until all agents serve it; the view of the first agent."""
        revision = self.put(desired_state(model, **parameters))
        return self.wait_agents(lambda agent: agent["applied_revision"] == revision and agent["accepting"])[0]

    def wait_agents(self, condition: Callable[[Json], bool], *, within_seconds: float = DEADLINE_SECONDS) -> list[Json]:
        """Wait until the agents that run have joined, nobody else, and the condition holds for each.

        Raises AssertionError.
        """
        deadline = time.monotonic() + within_seconds
        while True:
            agents: list[Json] = self.fleet()["agents"]
            running = sum(process.exit_status is None for process in self.agents)
            if len(agents) == running and all(condition(agent) for agent in agents):
                return agents
            assert time.monotonic() < deadline, (agents, self.logs())
            time.sleep(0.02)

    def fleet(self) -> Json:
        """`GET /api/v1/fleet`."""
        document: Json = self.get("/api/v1/fleet")
        return document

    def agent(self) -> Json:
        """The view of the only agent."""
        (agent,) = self.fleet()["agents"]
        view: Json = agent
        return view

    def gauges(self) -> dict[str, float]:
        """slots_processing, slots_total and requests_buffered of `/metrics`."""
        _, _, body = self.request("GET", "/metrics")
        lines = [line.split() for line in body.decode().splitlines() if line.startswith("paddler_")]
        return {name.removeprefix("paddler_"): float(value) for name, value in lines}

    def get(self, path: str) -> Any:
        status, _, body = self.request("GET", path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def request(
        self, method: str, path: str, document: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers in lower case and body of a management call."""
        connection = http.client.HTTPConnection(*self.management, timeout=HTTP_SECONDS)
        with closing(connection):
            body = None if document is None else json.dumps(document).encode()
            connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()

    def logs(self) -> str:
        return "\n".join(f"--- {one.log_path.name}\n{one.log[-3000:]}" for one in (self.balancer, *self.agents))

    # Asking it

    @asynccontextmanager
    async def client(
        self, prompt: str, max_tokens: int, grammar: Json | None = None, **more: Json
    ) -> AsyncIterator[NativeStream]:
        """A client that has sent its request; its connection is closed at the end."""
        async with RawConnection.to(self.inference, deadline_seconds=DEADLINE_SECONDS) as connection:
            body = {"raw_prompt": prompt, "max_tokens": max_tokens, "grammar": grammar, **more}
            await connection.post(RAW_PROMPT_PATH, body)
            yield NativeStream(connection)

    async def ask(self, prompt: str, max_tokens: int, grammar: Json | None = None, **more: Json) -> Generated:
        """The whole answer."""
        async with self.client(prompt, max_tokens, grammar, **more) as client:
            return await client.read_all()

    async def story(self, request_id: str) -> list[str]:
        """What the balancer remembers of a request."""
        document = await asyncio.to_thread(self.get, f"/api/v1/stories/{request_id}")
        lines: list[str] = document["story"]
        return lines

    async def wait_gauges(self, *, within_seconds: float = DEADLINE_SECONDS, **wanted: float) -> None:
        """Until the named gauges have these values. Raises TimeoutError."""
        async with asyncio.timeout(within_seconds):
            while True:
                gauges = await asyncio.to_thread(self.gauges)
                if all(gauges[name] == value for name, value in wanted.items()):
                    return
                await asyncio.sleep(0.01)

    async def wait_idle(self, *, within_seconds: float = DEADLINE_SECONDS) -> None:
        """Until no slot is taken and nobody waits, by the balancer's count and by the agents'."""
        await self.wait_gauges(within_seconds=within_seconds, slots_processing=0, requests_buffered=0)

        def is_idle(agent: Json) -> bool:
            return bool(agent["slots_processing_for_all_balancers"] == 0)

        await asyncio.to_thread(self.wait_agents, is_idle, within_seconds=within_seconds)

    def end(self) -> None:
        """The agents at the same time, then the balancer."""
        for agent in self.agents:
            if agent.exit_status is None:
                agent.send(signal.SIGTERM)
        for agent in self.agents:
            agent.end(is_asked=True)
        self.balancer.end()


@contextmanager
def running_fleet(folder: Path, *flags: str) -> Iterator[RunningFleet]:
    """A balancer on free ports, without agents. `flags` are the balancer's. Ended in order afterwards."""
    balancer = FleetProcess(
        folder / "balancer.log",
        *("balancer", "--inference-addr", "127.0.0.1:0", "--management-addr", "127.0.0.1:0"),
        *("--compat-addr", "127.0.0.1:0"),
        *("--drain-timeout", "200ms", *flags),
    )
    try:
        fleet = RunningFleet(folder, balancer)
    except BaseException:
        balancer.end()
        raise
    try:
        yield fleet
    finally:
        fleet.end()
    for process in (fleet.balancer, *fleet.agents):
        assert "Traceback" not in process.log, process.log
