"""The desired state outlives the process that keeps it, and a process says in one sentence why it does not start."""

import json
import signal
from pathlib import Path

import pytest

from shared.desired_state import DEFAULT_DESIRED_STATE
from shared.settings_sources import Address
from tests.support.raw_http import Answer, RawConnection
from tests.support.redis_server import RedisServer
from tests.support.running_balancer import BalancerProcess, ends_of_starts

STATE_PATH = "/api/v1/balancer_desired_state"
WANTED = {**DEFAULT_DESIRED_STATE.document(), "model": {"LocalToAgent": "/models/tiny.gguf"}}


async def ask(address: Address, method: str, path: str, body: bytes = b"") -> Answer:
    async with RawConnection.to(address) as client:
        await client.request(method, path, body, {"Content-Type": "application/json"})
        return await client.read_answer()


async def put(address: Address) -> int:
    return (await ask(address, "PUT", STATE_PATH, json.dumps(WANTED).encode())).status


@pytest.fixture(params=["file", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/state.json"
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.unix_url


async def test_a_balancer_killed_and_started_again_wants_the_same(place: str) -> None:
    async with BalancerProcess.started("--state-database", place) as process:
        assert await put(process.management_address) == 204
        process.send(signal.SIGKILL)
        await process.wait_exit()
    async with BalancerProcess.started("--state-database", place) as process:
        answer = await ask(process.management_address, "GET", STATE_PATH)
        assert json.loads(answer.body) == WANTED
        assert answer.head.headers["etag"] == '"1"'


async def test_without_its_redis_it_starts_says_so_and_goes_on_when_redis_comes(redis_server: RedisServer) -> None:
    await redis_server.stop()
    async with BalancerProcess.started("--state-database", redis_server.url) as process:
        await process.wait_line("waiting for the desired state: the state database at redis://127.0.0.1")
        assert (await ask(process.management_address, "GET", "/health")).status == 200
        assert await put(process.management_address) == 503
        await redis_server.start()
        await process.wait_line("the state database answers again")
        assert await put(process.management_address) == 204


async def test_a_state_database_that_is_none_ends_the_start_with_one_sentence() -> None:
    words = ("memory", "postgres://localhost/0", "file://relative.json", "redis://")
    for status, process in await ends_of_starts(*(("--state-database", word) for word in words)):
        assert status != 0, process.log
        assert "state database" in process.log or "state file" in process.log
        assert "Traceback" not in process.log
