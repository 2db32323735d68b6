"""Clients that are gone before the balancer has looked at their request: nothing of it is an error or is left."""

import asyncio
import json
from typing import Final

import pytest

from tests.support.raw_http import RawConnection
from tests.support.running_balancer import BalancerProcess

PATH: Final = "/api/v1/continue_from_raw_prompt"
CLIENTS: Final = 60  # whether the request or its end is seen first is chance, for each of them


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("max_tokens", [0, 4])  # answered at once; waits
async def test_clients_that_leave_with_their_request_still_unread_are_no_error(how: str, max_tokens: int) -> None:
    async with BalancerProcess.started("--max-buffered-requests", str(CLIENTS)) as process:
        for _ in range(CLIENTS):
            async with RawConnection.to(process.inference_address) as client:
                await client.post(PATH, {"raw_prompt": "x", "max_tokens": max_tokens})
                getattr(client, how)()
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            while await buffered(process) != 0:
                await asyncio.sleep(0.01)
    assert "ERROR" not in process.log
    assert "Traceback" not in process.log


async def buffered(process: BalancerProcess) -> int:
    async with RawConnection.to(process.management_address) as client:
        await client.request("GET", "/api/v1/buffered_requests")
        count: int = json.loads((await client.read_answer()).body)["buffered_requests_current"]
        return count
