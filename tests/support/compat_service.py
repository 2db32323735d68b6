"""A real balancer whose fleet is one scripted agent, as clients of the compatibility service see it.

async with compat_service(play) as service:
    answer = await service.ask("/v1/completions", {"model": "tiny", "prompt": [1], "stream": True})
    assert events_of(answer) == [...]
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from balancer.app import Balancer
from shared.desired_state import DEFAULT_DESIRED_STATE
from tests.support.raw_http import Answer, RawConnection
from tests.support.running_balancer import running_balancer
from tests.support.scripted_agent import Play, ScriptedAgent, scripted_agent

MODEL = "tiny"
COMPLETIONS = "/v1/completions"
COMPLETE = "/v1/complete"
TOKENS: dict[str, Any] = {"model": MODEL, "prompt": [5, 6, 7]}
TEXT: dict[str, Any] = {"model": MODEL, "prompt": "Once", "max_tokens_to_sample": 16}
_STATE_PATH = "/api/v1/balancer_desired_state"


@dataclass(slots=True)
class CompatService:
    """The balancer and its agent."""

    balancer: Balancer
    agent: ScriptedAgent

    async def ask(self, path: str, body: Any = None, method: str = "POST", **headers: str) -> Answer:
        async with RawConnection.to(self.balancer.compat_address) as client:
            if method == "POST":
                await client.post(path, body, **headers)
            else:
                await client.request(method, path, b"", {name.replace("_", "-"): one for name, one in headers.items()})
            return await client.read_answer()


@asynccontextmanager
async def compat_service(play: Play | None = None, *, slots: int = 4, **settings: Any) -> AsyncIterator[CompatService]:
    """Serving the model `tiny`."""
    async with running_balancer(**settings) as balancer:
        document = {**DEFAULT_DESIRED_STATE.document(), "model": {"LocalToAgent": f"/models/{MODEL}.gguf"}}
        async with RawConnection.to(balancer.management_address) as client:
            headers = {"Content-Type": "application/json"}
            await client.request("PUT", _STATE_PATH, json.dumps(document).encode(), headers)
            assert (await client.read_answer()).status == 204
        url = f"http://{balancer.management_address}"
        async with scripted_agent(url, slots=slots, play=play) as agent:
            yield CompatService(balancer, agent)


def json_of(answer: Answer) -> dict[str, Any]:
    """A whole answer's document."""
    assert answer.head.headers["content-type"] == "application/json"
    found: dict[str, Any] = json.loads(answer.body)
    return found


def events_of(answer: Answer) -> list[tuple[str | None, Any]]:
    """Name and data of each event; data is parsed unless it is `[DONE]`. Comments are left out."""
    assert answer.status == 200
    assert answer.head.headers["content-type"] == "text/event-stream"
    assert answer.text.endswith("\n\n")
    found: list[tuple[str | None, Any]] = []
    for block in answer.text.split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if not lines:
            continue
        name = lines[0].removeprefix("event: ") if lines[0].startswith("event: ") else None
        (data,) = lines if name is None else lines[1:]
        data = data.removeprefix("data: ")
        found.append((name, data if data == "[DONE]" else json.loads(data)))
    return found
