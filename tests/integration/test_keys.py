"""Keys through the real start-up path: every route with a right, a wrong and no key, in its own error shape."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from balancer.app import Balancer
from shared.settings_sources import Address
from tests.support.raw_http import Answer, RawConnection
from tests.support.running_balancer import BalancerProcess, ends_of_starts, running_balancer

KEY, OTHER_KEY, TOKEN = "key-of-alice", "key-of-bob", "token-of-operators"
ORIGIN = "https://app.example.com"
BEARER = {"Authorization": f"Bearer {KEY}"}
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}
WRONG: tuple[dict[str, str], ...] = (
    {},
    {"Authorization": "Bearer wrong"},
    {"Authorization": f"Basic {KEY}"},
    {"Authorization": f"Bearer {KEY}x"},
)
RAW_PROMPT = "/api/v1/continue_from_raw_prompt"


@dataclass(slots=True)
class Files:
    """Where the secrets are kept."""

    keys: Path
    token: Path

    def write_keys(self, *lines: str) -> None:
        self.keys.write_text("\n".join(lines) + "\n")
        self.keys.chmod(0o600)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path / "keys", tmp_path / "token")
    made.write_keys(f"alice:{KEY}")
    made.token.write_text(f"{TOKEN}\n")
    made.token.chmod(0o600)
    return made


@pytest.fixture
async def balancer(files: Files) -> AsyncIterator[Balancer]:
    settings = {
        "inference_keys_file": files.keys,
        "management_token_file": files.token,
        "inference_cors_allowed_host": [ORIGIN],
        "management_cors_allowed_host": [ORIGIN],
    }
    async with running_balancer(**settings) as running:
        yield running


async def ask(address: Address, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Answer:
    async with RawConnection.to(address) as client:
        await client.request(method, path, body, {"Content-Type": "application/json", **headers})
        return await client.read_answer()


# Who comes in, and how the rest is told


@pytest.mark.parametrize("headers", WRONG)
@pytest.mark.parametrize(("method", "path"), [("POST", RAW_PROMPT), ("GET", "/unknown"), ("OPTIONS", RAW_PROMPT)])
async def test_native_inference_says_401_in_plain_text(
    balancer: Balancer, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = await ask(balancer.inference_address, method, path, headers, b"not even json")
    assert answer.status == 401
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.head.headers["www-authenticate"] == "Bearer"
    assert answer.text == "a valid key is required: Authorization: Bearer <key>"


@pytest.mark.parametrize("headers", [*WRONG, {"x-api-key": KEY}])
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/completions"), ("GET", "/v1/models"), ("GET", "/v1/none")])
async def test_completions_and_models_say_it_as_openai_and_sglang_do(
    balancer: Balancer, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = await ask(balancer.compat_address, method, path, headers, b"not even json")
    document = json.loads(answer.body)
    assert answer.status == document["code"] == 401
    assert document["error"]["code"] == "invalid_api_key"
    assert document["object"] == "error"


@pytest.mark.parametrize("headers", [*WRONG, {"x-api-key": "wrong"}])
async def test_complete_says_it_in_the_callers_habits(balancer: Balancer, headers: dict[str, str]) -> None:
    seed = await ask(balancer.compat_address, "POST", "/v1/complete", headers, b"{}")
    assert seed.status == 401
    assert json.loads(seed.body).keys() == {"code", "error"}
    headers = {**headers, "anthropic-version": "2023-06-01"}
    anthropic = await ask(balancer.compat_address, "POST", "/v1/complete", headers, b"{}")
    assert anthropic.status == 401
    assert json.loads(anthropic.body)["error"]["type"] == "authentication_error"


async def test_the_refusal_does_not_wait_for_the_body(balancer: Balancer) -> None:
    for address, path in ((balancer.inference_address, RAW_PROMPT), (balancer.compat_address, "/v1/completions")):
        async with RawConnection.to(address) as client:
            await client.send(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n{{".encode())
            assert (await client.read_head()).status == 401


async def test_a_right_key_reaches_the_handlers(balancer: Balancer) -> None:
    body = json.dumps({"raw_prompt": "x", "max_tokens": 0}).encode()
    answer = await ask(balancer.inference_address, "POST", RAW_PROMPT, BEARER, body)
    assert (answer.status, b"Done" in answer.body) == (200, True)
    compat = balancer.compat_address
    assert (await ask(compat, "GET", "/v1/models", BEARER)).status == 200
    assert (await ask(compat, "POST", "/v1/completions", BEARER, b"{")).status == 400
    for shown in (BEARER, {"x-api-key": KEY}):
        assert (await ask(compat, "POST", "/v1/complete", shown, b"{}")).status == 422
    assert (await ask(compat, "GET", "/v1/none", BEARER)).status == 404


@pytest.mark.parametrize("headers", [*WRONG, BEARER])
async def test_management_wants_its_own_token(balancer: Balancer, headers: dict[str, str]) -> None:
    for method, path in (
        ("GET", "/api/v1/fleet"),
        ("GET", "/api/v1/agents/stream"),
        ("GET", "/api/v1/stories/x"),
        ("PUT", "/api/v1/balancer_desired_state"),
        ("GET", "/unknown"),
    ):
        answer = await ask(balancer.management_address, method, path, headers)
        assert answer.status == 401, path
        assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"
        async with RawConnection.to(balancer.management_address) as client:
            await client.request(method, path, b"", OPERATOR)
            assert (await client.read_head()).status != 401, path  # streams have no end


async def test_probes_and_numbers_need_no_key(balancer: Balancer) -> None:
    for address, paths in (
        (balancer.inference_address, {"/health": 200, "/ready": 404}),
        (balancer.compat_address, {"/health": 200, "/ready": 503}),
        (balancer.management_address, {"/health": 200, "/ready": 503, "/metrics": 200}),
    ):
        for path, status in paths.items():
            assert (await ask(address, "GET", path, {})).status == status, path


async def test_the_agents_socket_has_a_token_of_its_own(balancer: Balancer) -> None:
    answer = await ask(balancer.management_address, "GET", "/api/v1/agent_socket/a", {})
    assert answer.status == 400  # no websocket, but nobody asks for the operators' token


# Web pages


async def test_a_preflight_carries_no_key_and_passes(balancer: Balancer) -> None:
    headers = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    for address, path in (
        (balancer.inference_address, RAW_PROMPT),
        (balancer.compat_address, "/v1/complete"),
        (balancer.management_address, "/api/v1/fleet"),
    ):
        answer = await ask(address, "OPTIONS", path, headers)
        assert answer.status == 200
        assert answer.head.headers["access-control-allow-origin"] == ORIGIN
        allowed = answer.head.headers["access-control-allow-headers"].lower()
        assert all(name in allowed for name in ("authorization", "x-api-key", "anthropic-version", "traceparent"))


async def test_a_page_may_read_that_its_key_is_wrong(balancer: Balancer) -> None:
    for address, path in ((balancer.inference_address, RAW_PROMPT), (balancer.compat_address, "/v1/complete")):
        answer = await ask(address, "POST", path, {"Origin": ORIGIN}, b"{}")
        assert answer.status == 401
        assert answer.head.headers["access-control-allow-origin"] == ORIGIN
        assert answer.head.headers["access-control-expose-headers"] == "x-request-id, Retry-After"
        assert answer.head.headers["x-request-id"]


# The process


async def status_with(process: BalancerProcess, key: str) -> int:
    return (await ask(process.compat_address, "GET", "/v1/models", {"Authorization": f"Bearer {key}"})).status


async def test_a_hang_up_reads_the_keys_again_and_a_bad_file_changes_nothing(files: Files) -> None:
    flags = ("--inference-keys-file", str(files.keys), "--management-token-file", str(files.token))
    async with BalancerProcess.started(*flags) as process:
        assert [await status_with(process, key) for key in (KEY, OTHER_KEY)] == [200, 401]
        files.write_keys(f"bob:{OTHER_KEY}")
        assert [await status_with(process, key) for key in (KEY, OTHER_KEY)] == [200, 401]
        process.send(signal.SIGHUP)
        await process.wait_line("certificates were read again")
        assert [await status_with(process, key) for key in (KEY, OTHER_KEY)] == [401, 200]
        files.write_keys(f"bob:{OTHER_KEY}", f"secret line without a colon {KEY}")
        process.send(signal.SIGHUP)
        await process.wait_line("stay what they were: --inference-keys-file")
        assert [await status_with(process, key) for key in (KEY, OTHER_KEY)] == [401, 200]
        process.send(signal.SIGTERM)
        assert await process.wait_exit() == 0
    assert "line 2: must be name:key" in process.log
    for secret in (KEY, OTHER_KEY, TOKEN):
        assert secret not in process.log


async def test_a_hang_up_ends_a_balancer_without_such_files_as_it_ends_any_process() -> None:
    async with BalancerProcess.started() as process:
        process.send(signal.SIGHUP)
        assert await process.wait_exit() == -signal.SIGHUP


async def test_a_keys_file_that_cannot_be_used_is_one_plain_sentence(tmp_path: Path) -> None:
    missing, open_to_all = tmp_path / "missing", tmp_path / "keys"
    open_to_all.write_text(f"alice:{KEY}\n")
    open_to_all.chmod(0o622)
    starts = [("--inference-keys-file", str(path)) for path in (missing, open_to_all)]
    said = []
    for status, process in await ends_of_starts(*starts):
        assert status == 2, process.log
        said += [line for line in process.lines if line.startswith("steersman balancer: ")]
    assert len(said) == 2
    assert f"--inference-keys-file: {missing}" in said[0]
    assert "cannot be read (No such file or directory)" in said[0]
    assert "every user of this host may change" in said[1]


async def test_only_services_without_keys_are_said_to_be_open(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    everywhere = Address("0.0.0.0", 0)
    addresses = {"inference_addr": everywhere, "compat_addr": everywhere, "management_addr": everywhere}
    async with running_balancer(**addresses, inference_keys_file=files.keys):
        (said,) = [record.getMessage() for record in caplog.records if "OPEN" in record.getMessage()]
    assert "--inference-keys-file" not in said
    assert "--management-token-file" in said
    assert "--agent-token-file" in said
    caplog.clear()
    closed = {"management_token_file": files.token, "agent_token_file": files.token}
    async with asyncio.timeout(60), running_balancer(**addresses, inference_keys_file=files.keys, **closed):
        assert "OPEN" not in caplog.text
