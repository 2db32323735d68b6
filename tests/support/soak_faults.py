"""What befalls the fleet during a soak: agents that end, die and freeze, other models, a Redis that goes away."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.support.fleet_process import FleetProcess
from tests.support.redis_server import RedisServer
from tests.support.running_fleet import STATE_PATH, Json, RunningFleet, desired_state

SLOTS: Final = 3
# Two agents on two cores: more threads would only wait for one another.
# The store of prefixes is soon full, so that what an agent holds can be compared.
AGENT_FLAGS: Final = ("--threads", "1", "--drain-timeout", "2s", "--prefix-store-size", "16777216")
HEARTBEAT_SECONDS: Final = 1.0
RETURN_SECONDS: Final = 20.0
STEADY, RESTLESS = "steady", "restless"


class Faults:
    """One after another, each kind once before any comes again. All of it is whole again when `run` returns.

    The agent `steady` keeps its process, so that its memory can be compared; `restless` does not.
    """

    def __init__(self, fleet: RunningFleet, redis: RedisServer, models: tuple[Path, Path], seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._fleet = fleet
        self._redis = redis
        self._random = Random(f"{seed}/faults")
        self._deck: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        demo, tiny = models
        self.reference = desired_state(demo, context_size=1024)
        self.other = desired_state(tiny, context_size=1024)
        self._states = {
            "swap: context": desired_state(demo, context_size=2048),
            "swap: model": self.other,
            "swap: back": self.reference,
            "swap: no such file": desired_state("/nonexistent/model.gguf"),
            "swap: awkward": desired_state(demo, context_size=64, n_batch=2048),
            "new sampling": desired_state(demo, context_size=1024, temperature=0.9, penalty_last_n=-1),
        }
        self._wanted = self.reference

    @property
    def steady(self) -> FleetProcess:
        return self._fleet.agents[0]

    def start_agents(self) -> None:
        """Both, in the order that `steady` relies on."""
        for name in (STEADY, RESTLESS):
            self._start_agent(name)

    async def run(self, seconds: float) -> None:
        """Raises AssertionError when the fleet does not bear one as it must."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self._deck:
                self._deck = self._new_deck()
            name, fault = self._deck.pop()
            await fault()
            self.counts[name] += 1
            await asyncio.sleep(self._random.uniform(0.2, 2.0))

    async def put(self, document: Json) -> None:
        """PUT a state while the store is there."""
        assert await self._put(document) == 204
        self._wanted = document

    def _new_deck(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        deck: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("agent: SIGTERM", self._terminate_agent),
            ("agent: SIGKILL", self._kill_agent),
            ("agent: SIGKILL", self._kill_agent),
            ("agent: frozen", self._freeze_agent),
            ("Redis restarted", lambda: self._restart_redis(self._redis.stop)),
            ("Redis killed", lambda: self._restart_redis(self._redis.kill)),
            ("PUT: the same", lambda: self.put(self._wanted)),
            ("PUT: refused", self._put_nonsense),
        ]
        deck += [(name, self._putting(state)) for name, state in self._states.items()]
        self._random.shuffle(deck)
        return deck

    def _putting(self, document: Json) -> Callable[[], Awaitable[None]]:
        return lambda: self.put(document)

    # Agents

    def _start_agent(self, name: str) -> None:
        self._fleet.add_agent(*AGENT_FLAGS, slots=SLOTS, name=name)

    async def _terminate_agent(self) -> None:
        """It leaves in order, whatever it is doing."""
        agent = self._fleet.agents.pop()
        agent.send(signal.SIGTERM)
        status = await asyncio.to_thread(agent.wait_exit)
        # Python itself may not have come to our handler of signals yet; then it has not said a word either.
        assert status == 0 or (status == -signal.SIGTERM and not agent.log), (status, agent.log[-3000:])
        self._start_agent(RESTLESS)

    async def _kill_agent(self) -> None:
        agent = self._fleet.agents.pop()
        agent.send(signal.SIGKILL)
        await asyncio.to_thread(agent.wait_exit)
        await asyncio.sleep(self._random.uniform(0.0, 1.5))
        self._start_agent(RESTLESS)

    async def _freeze_agent(self) -> None:
        """Long enough to be taken for lost; its process lives on and joins again."""
        self.steady.send(signal.SIGSTOP)
        await asyncio.sleep(3.5 * HEARTBEAT_SECONDS)
        self.steady.send(signal.SIGCONT)

    # The desired state

    async def _put(self, document: Any) -> int:
        status, _, _ = await asyncio.to_thread(self._fleet.request, "PUT", STATE_PATH, document)
        return status

    async def _get(self) -> tuple[str, Any]:
        status, headers, body = await asyncio.to_thread(self._fleet.request, "GET", STATE_PATH)
        assert status == 200, (status, body)
        return headers["etag"], body

    async def _put_nonsense(self) -> None:
        before = await self._get()
        assert await self._put({**self._wanted, "model": {"Nowhere": "x"}}) == 400
        assert await self._get() == before

    async def _restart_redis(self, end: Callable[[], Awaitable[None]]) -> None:
        """While it is away a PUT is refused and changes nothing; afterwards it works again."""
        before = await self._get()
        await end()
        document = self._random.choice(list(self._states.values()))
        assert await self._put(document) == 503
        assert await self._get() == before
        await asyncio.sleep(self._random.uniform(0.0, 1.0))
        await self._redis.start()
        assert await self._get() == before
        async with asyncio.timeout(RETURN_SECONDS):
            while (status := await self._put(document)) != 204:
                assert status == 503
                await asyncio.sleep(0.05)
        self._wanted = document
