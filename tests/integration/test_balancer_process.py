"""The balancer as a process: how it starts, what it says, how it stops, and what is left after it was killed."""

import asyncio
import json
import logging
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from balancer.app import Balancer
from balancer.side_tasks import SideTaskDied
from shared.desired_state import DEFAULT_DESIRED_STATE
from shared.settings_sources import Address
from tests.support.raw_http import Answer, AnswerBroken, RawConnection, documents
from tests.support.running_balancer import BalancerProcess, ends_of_starts, running_balancer

PATH = "/api/v1/continue_from_raw_prompt"
STATE_PATH = "/api/v1/balancer_desired_state"
BODY = {"raw_prompt": "a secret prompt", "max_tokens": 4}
PATIENT = ("--buffered-request-timeout", "60s")


async def ask(address: Address, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
    async with RawConnection.to(address) as client:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        await client.request(method, path, body, given)
        return await client.read_answer()


async def is_refused(address: Address) -> bool:
    with suppress(ConnectionRefusedError):
        async with RawConnection.to(address):
            return False
    return True


async def wait_buffered(address: Address, count: int) -> None:
    async with asyncio.timeout(20):
        while (await buffered(address)) != count:
            await asyncio.sleep(0.01)


async def buffered(address: Address) -> int:
    answer = await ask(address, "GET", "/api/v1/buffered_requests")
    count: int = json.loads(answer.body)["buffered_requests_current"]
    return count


# Starting


async def test_it_serves_both_services_and_stops_in_order_at_one_signal() -> None:
    async def serves_and_stops_at(number: signal.Signals) -> None:
        async with BalancerProcess.started() as process:
            for address in (process.inference_address, process.management_address):
                assert (await ask(address, "GET", "/health")).text == "OK"
            process.send(number)
            assert await process.wait_exit() == 0
            assert await is_refused(process.inference_address)
            assert await is_refused(process.management_address)
        assert "Traceback" not in process.log
        assert "WARNING" not in process.log

    await asyncio.gather(serves_and_stops_at(signal.SIGTERM), serves_and_stops_at(signal.SIGINT))


async def test_it_needs_little_memory_after_its_first_request_and_none_of_the_agents_half() -> None:
    async with BalancerProcess.started() as process:
        answer = await ask(
            process.inference_address,
            "POST",
            PATH,
            json.dumps({**BODY, "max_tokens": 0}).encode(),
            Content_Type="application/json",
        )
        assert answer.status == 200
        assert process.resident_bytes() <= 80 * 1024 * 1024
        maps = Path(f"/proc/{process.process.pid}/maps").read_text(encoding="utf-8")
        assert not any(library in maps for library in ("llama", "numpy", "ggml"))


async def test_what_keeps_it_from_starting_is_one_plain_sentence() -> None:
    starts: list[tuple[tuple[str, ...], int, str]] = [
        (("--max-buffered-requests", "many"), 2, "--max-buffered-requests"),
        (("--no-such-flag",), 2, "--no-such-flag"),
        (("--state-database", "postgres://x"), 2, "postgres"),
        (("--agent-token-file", "/nonexistent/token"), 2, "--agent-token-file: /nonexistent/token cannot be read"),
        (("--config", "/nonexistent/balancer.toml"), 2, "/nonexistent/balancer.toml"),
        (("--inference-addr", "192.0.2.1:9"), 1, "inference cannot listen on 192.0.2.1:9"),
    ]
    ends = await ends_of_starts(*(flags for flags, _, _ in starts))
    for (flags, wanted, words), (status, process) in zip(starts, ends, strict=True):
        assert status == wanted, flags
        said = [line for line in process.lines if line.startswith("steersman balancer: ")]
        assert len(said) == 1, flags
        assert words in said[0]
        assert "Traceback" not in process.log


async def test_a_port_in_use_is_named_once_with_what_to_do_and_nothing_before_it() -> None:
    async with BalancerProcess.started() as first:
        taken, first_port = str(first.inference_address), first.inference_address.port
        async with BalancerProcess.launched("--inference-addr", taken) as second:
            assert await second.wait_exit() == 1
    said = second.lines[-1]
    assert f"inference cannot listen on {taken}: the port is in use; does another balancer run here?" in said
    assert "--inference-addr HOST:PORT takes another" in said
    assert said.count(str(first_port)) == 1
    assert "has stopped" not in second.log


async def test_an_open_start_for_everybody_is_said_loudly(caplog: pytest.LogCaptureFixture) -> None:
    async with running_balancer(inference_addr=Address("0.0.0.0", 0)):
        assert "EVERYTHING IS OPEN" in caplog.text
    caplog.clear()
    async with running_balancer():
        assert "OPEN" not in caplog.text


async def test_settings_come_from_the_environment_too() -> None:
    async with BalancerProcess.started(STEERSMAN_BALANCER_MAX_BUFFERED_REQUESTS="0") as process:
        answer = await post(process.inference_address, BODY)
        assert error_of(answer) == (503, "Buffered requests overflow")


async def post(address: Address, body: Any) -> Answer:
    async with RawConnection.to(address) as client:
        await client.post(PATH, body)
        return await client.read_answer()


def error_of(answer: Answer) -> tuple[int, str]:
    (line,) = documents(answer.body)
    return line["Error"]["error"]["code"], line["Error"]["error"]["description"]


async def test_a_fleet_that_is_told_to_embed_generates_nothing_until_it_is_told_otherwise() -> None:
    async with running_balancer(buffered_request_timeout_seconds=0.0) as balancer:
        for enable, status in ((True, 501), (False, 200)):
            document = DEFAULT_DESIRED_STATE.model_dump(mode="json")
            document["inference_parameters"]["enable_embeddings"] = enable
            address, body = balancer.management_address, json.dumps(document).encode()
            put = await ask(address, "PUT", STATE_PATH, body, Content_Type="application/json")
            assert put.status == 204
            assert (await post(balancer.inference_address, BODY)).status == status


# Waiting without agents


async def test_without_agents_a_request_waits_and_then_hears_that_it_waited_too_long() -> None:
    async with running_balancer(buffered_request_timeout_seconds=0.1) as balancer:
        answer = await post(balancer.inference_address, BODY)
        assert error_of(answer) == (504, "Waiting for available slot timed out")


async def test_a_full_room_refuses_at_once_and_forgets_who_leaves() -> None:
    async with running_balancer(max_buffered_requests=1, buffered_request_timeout_seconds=60.0) as balancer:
        async with RawConnection.to(balancer.inference_address) as first:
            await first.post(PATH, BODY)
            await wait_buffered(balancer.management_address, 1)
            assert error_of(await post(balancer.inference_address, BODY)) == (503, "Buffered requests overflow")
            first.half_close()
            await wait_buffered(balancer.management_address, 0)
        assert balancer.switchboard.statistics().groups_open == 0


async def test_a_client_that_leaves_its_place_frees_it_in_the_loop_of_production() -> None:
    async with BalancerProcess.started(*PATIENT) as process:
        for how in ("close", "reset", "half_close"):
            async with RawConnection.to(process.inference_address) as client:
                await client.post(PATH, BODY)
                await wait_buffered(process.management_address, 1)
                getattr(client, how)()
                await wait_buffered(process.management_address, 0)


# Stopping


async def test_what_still_waits_at_the_drains_end_is_told_so() -> None:
    async with BalancerProcess.started(*PATIENT, "--drain-timeout", "300ms") as process:
        async with RawConnection.to(process.inference_address) as client:
            await client.post(PATH, BODY)
            await wait_buffered(process.management_address, 1)
            process.send(signal.SIGTERM)
            answer = await client.read_answer()
            assert error_of(answer) == (503, "balancer is shutting down")
            assert await process.wait_exit() == 0
    assert "secret" not in process.log


async def test_while_it_drains_it_takes_no_new_clients_and_says_that_it_is_not_ready() -> None:
    async with BalancerProcess.started(*PATIENT) as process:
        async with RawConnection.to(process.inference_address) as client:
            await client.post(PATH, BODY)
            await wait_buffered(process.management_address, 1)
            process.send(signal.SIGTERM)
            await process.wait_line("stopping:")
            async with asyncio.timeout(20):
                while not await is_refused(process.inference_address):
                    await asyncio.sleep(0.01)
            ready = await ask(process.management_address, "GET", "/ready")
            assert ready.status == 503
            assert (await ask(process.management_address, "GET", "/health")).status == 200
            # The waiting client leaves; with that nothing is left to wait for.
            client.close()
            assert await process.wait_exit() == 0


async def test_a_second_signal_ends_it_at_once() -> None:
    async with BalancerProcess.started(*PATIENT) as process:
        async with RawConnection.to(process.inference_address) as client:
            await client.post(PATH, BODY)
            await wait_buffered(process.management_address, 1)
            process.send(signal.SIGTERM)
            await process.wait_line("stopping:")
            process.send(signal.SIGTERM)
            assert await process.wait_exit() == 128 + signal.SIGTERM
            await client.read_head()
            with pytest.raises(AnswerBroken):
                await client.read_chunk()


async def test_open_event_streams_do_not_hold_it_up() -> None:
    async with BalancerProcess.started() as process, RawConnection.to(process.management_address) as client:
        await client.request("GET", "/api/v1/agents/stream")
        await client.read_head()
        assert await client.read_chunk()
        process.send(signal.SIGTERM)
        assert await process.wait_exit() == 0


async def test_a_side_task_that_dies_stops_it_with_a_clear_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def dies() -> None:
        raise RuntimeError("planted")

    with caplog.at_level(logging.CRITICAL), pytest.raises(ExceptionGroup) as caught:  # noqa: PT012
        async with running_balancer() as balancer:
            monkeypatch.setattr(balancer.watch, "_catch_up", dies)
            await balancer.watch.replace(DEFAULT_DESIRED_STATE, None)
            await asyncio.Event().wait()
    assert caught.group_contains(SideTaskDied, match="desired-state watch")
    assert "the desired-state watch task died" in caplog.text
    assert "planted" in caplog.text


async def test_nothing_of_it_is_left_in_the_loop_afterwards() -> None:
    before = asyncio.all_tasks()
    balancer: Balancer
    async with running_balancer() as balancer:
        address = balancer.inference_address
        async with RawConnection.to(address) as client:
            await client.post(PATH, {**BODY, "max_tokens": 0})
            await client.read_answer()
    assert await is_refused(address)
    assert asyncio.all_tasks() == before


# Being killed


async def test_a_killed_balancer_comes_back_with_its_desired_state(tmp_path: Path) -> None:
    flags = ("--state-database", f"file://{tmp_path}/state.json")
    state = DEFAULT_DESIRED_STATE.model_copy(update={"model": {"LocalToAgent": "/models/a.gguf"}})
    document = json.dumps(state.model_dump(mode="json", warnings=False)).encode()
    async with BalancerProcess.started(*flags) as first:
        put = await ask(first.management_address, "PUT", STATE_PATH, document, Content_Type="application/json")
        assert put.status == 204
        first.send(signal.SIGKILL)
        assert await first.wait_exit() == -signal.SIGKILL
    async with BalancerProcess.started(*flags) as second:
        answer = await ask(second.management_address, "GET", STATE_PATH)
    assert json.loads(answer.body)["model"] == {"LocalToAgent": "/models/a.gguf"}
    assert answer.head.headers["etag"] == put.head.headers["etag"]


async def test_a_corrupt_state_file_is_named_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text('{"version": "1", "balancer_desired_')
    async with BalancerProcess.launched("--state-database", f"file://{file}") as process:
        assert await process.wait_exit() == 2
    assert str(file) in process.log
    assert file.read_text() == '{"version": "1", "balancer_desired_'


# The agents' door


async def test_with_a_token_only_agents_that_show_it_reach_the_socket(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    async with running_balancer(agent_token_file=file) as balancer:
        address = balancer.management_address
        assert (await ask(address, "GET", "/api/v1/agent_socket/a")).status == 401
        for shown in ("Bearer wrong", "Basic s3cret"):
            assert (await ask(address, "GET", "/api/v1/agent_socket/a", Authorization=shown)).status == 401
        # Past the guard the socket itself complains that this is no websocket.
        answer = await ask(address, "GET", "/api/v1/agent_socket/a", Authorization="Bearer s3cret")
        assert answer.status != 401
        assert (await ask(address, "GET", "/api/v1/agents")).status == 200
