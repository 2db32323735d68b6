"""Case C26: every slot busy, the room full, and the management service answers as if nothing were."""

import asyncio
import json
from dataclasses import dataclass, field

from balancer.app import Balancer
from balancer.linked_agents import LinkIdentity
from shared.desired_state import DEFAULT_DESIRED_STATE
from shared.identifiers import AgentId
from shared.messages_to_agent import Generate, MessageToAgent
from shared.settings_sources import Address
from tests.support.conditions import wait_until
from tests.support.fleet_snapshots import status
from tests.support.raw_http import RawConnection
from tests.support.running_balancer import running_balancer

LIMIT_SECONDS = 0.2
PATHS = [
    "/health",
    "/ready",
    "/metrics",
    "/api/v1/agents",
    "/api/v1/fleet",
    "/api/v1/buffered_requests",
    "/api/v1/balancer_desired_state",
    "/api/v1/balancer_applicable_state",
]


@dataclass
class BusyAgent:
    """A link that takes work and never finishes it."""

    identity: LinkIdentity = field(default_factory=lambda: LinkIdentity(AgentId("busy"), "busy", "0.1.0", "127.0.0.1"))
    last_heard_at: float = float("inf")
    sent: list[MessageToAgent] = field(default_factory=list)

    def send(self, message: MessageToAgent) -> bool:
        self.sent.append(message)
        return True

    def has_room_for(self, message_bytes: int) -> bool:
        return True

    def close(self, code: int, reason: str) -> None:
        pass


async def start_request(client: RawConnection) -> None:
    await client.post("/api/v1/continue_from_raw_prompt", {"raw_prompt": "x", "max_tokens": 8})
    await client.read_head()


async def answer_and_seconds(address: Address, method: str, path: str, body: bytes = b"") -> tuple[int, bytes, float]:
    """The better of two: a machine that others use may pause once, a handler that waits for a slot waits always."""
    best = float("inf")
    loop = asyncio.get_running_loop()
    for _ in range(2):
        async with RawConnection.to(address) as client:
            began = loop.time()
            await client.request(method, path, body, {"Content-Type": "application/json"})
            answer = await client.read_answer()
            best = min(best, loop.time() - began)
    return answer.status, answer.body, best


async def fill(balancer: Balancer, agent: BusyAgent, clients: list[RawConnection]) -> None:
    balancer.switchboard.agent_joined(agent, status(slots_total=1, desired_slots_total=1))
    for client in clients:
        await start_request(client)
    await wait_until(lambda: balancer.switchboard.requests_buffered == 1)
    assert sum(isinstance(message, Generate) for message in agent.sent) == 1


async def test_everything_answers_at_once_while_all_is_busy() -> None:
    async with (
        running_balancer(max_buffered_requests=1, buffered_request_timeout_seconds=300.0) as balancer,
        RawConnection.to(balancer.inference_address) as running,
        RawConnection.to(balancer.inference_address) as waiting,
        RawConnection.to(balancer.inference_address) as refused,
    ):
        await fill(balancer, BusyAgent(), [running, waiting])
        await start_request(refused)
        assert b"Buffered requests overflow" in await refused.read_chunk()
        management = balancer.management_address
        for path in PATHS:
            code, body, seconds = await answer_and_seconds(management, "GET", path)
            assert (code, seconds < LIMIT_SECONDS) == (200, True), (path, code, seconds, body)
        assert (await answer_and_seconds(balancer.inference_address, "GET", "/health"))[0] == 200
        _, metrics, _ = await answer_and_seconds(management, "GET", "/metrics")
        for line in (b"slots_processing 1.0", b"slots_total 1.0", b"requests_buffered 1.0"):
            assert b"\npaddler_" + line + b"\n" in metrics
        state = json.dumps(DEFAULT_DESIRED_STATE.document()).encode()
        code, _, seconds = await answer_and_seconds(management, "PUT", "/api/v1/balancer_desired_state", state)
        assert (code, seconds < LIMIT_SECONDS) == (204, True)
        async with RawConnection.to(management) as stream:
            began = asyncio.get_running_loop().time()
            await stream.request("GET", "/api/v1/agents/stream")
            assert (await stream.read_head()).status == 200
            assert b'"slots_processing":1' in await stream.read_chunk()
            assert asyncio.get_running_loop().time() - began < LIMIT_SECONDS * 2


async def test_a_story_tells_what_happened_to_a_request() -> None:
    async with running_balancer() as balancer, RawConnection.to(balancer.inference_address) as client:
        await client.post("/api/v1/continue_from_raw_prompt", {"raw_prompt": "x", "max_tokens": 8})
        request_id = (await client.read_head()).headers["x-request-id"]
        code, body, _ = await answer_and_seconds(balancer.management_address, "GET", f"/api/v1/stories/{request_id}")
        assert code == 200
        document = json.loads(body)
        assert document["request_id"] == request_id
        assert document["story"]
