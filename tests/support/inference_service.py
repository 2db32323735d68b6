"""The inference service through our own listener, for tests that play the switchboard.

aiohttp's test server would be kinder than production (it cancels handlers of clients that left), so it is not used.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from shared.settings_sources import Address
from tests.support.raw_http import Answer, RawConnection
from tests.support.scripted_groups import ScriptedGroups

PATH = "/api/v1/continue_from_raw_prompt"
BODY = {"raw_prompt": "2+2=", "max_tokens": 16}
MAX_BYTES = 2_000_000


@dataclass(slots=True)
class InferenceService:
    """The inference service, listening."""

    groups: ScriptedGroups
    address: Address = field(default_factory=lambda: Address("127.0.0.1", 0))
    is_generation_disabled: bool = False

    def connect(self, receive_buffer_bytes: int | None = None) -> AbstractAsyncContextManager[RawConnection]:
        return RawConnection.to(self.address, receive_buffer_bytes=receive_buffer_bytes)

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        async with self.connect() as client:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            await client.request(method, path, body, given)
            return await client.read_answer()

    async def post(self, body: Any, **headers: str) -> Answer:
        async with self.connect() as client:
            await client.post(PATH, body, **headers)
            return await client.read_answer()


def post_head(length: str) -> bytes:
    """The head of a request to the route; `length` is the header line that tells how its body ends."""
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n".encode()


def token(text: str, name: str | None = "agent-a") -> Callable[[str], dict[str, Any]]:
    """The line of one token, once the id of the request is known."""
    return lambda request_id: {
        "Response": {
            "generated_by": name,
            "request_id": request_id,
            "response": {"GeneratedToken": {"ContentToken": text}},
        }
    }


def variant(document: dict[str, Any]) -> dict[str, Any]:
    """What a line says, without the frame around it."""
    found: dict[str, Any] = document["Response"]["response"]["GeneratedToken"]
    return found
