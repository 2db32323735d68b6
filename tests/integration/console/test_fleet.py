"""`status`, `top` and `bench` against a real balancer with an agent that has no model."""

import asyncio
import json
import os
import pty
import signal
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from balancer.app import Balancer
from balancer.console.management_client import management_client
from balancer.console.settings import ConnectionSettings
from balancer.console.top import LiveView
from shared.agent_status import AgentIssue, IssueKind
from shared.messages_to_agent import Generate
from shared.settings_sources import Address
from tests.support.certificates import OPENSSL, self_signed
from tests.support.conditions import wait_until
from tests.support.console_run import run
from tests.support.running_balancer import COMMAND, ROOT, BalancerProcess, running_balancer
from tests.support.scripted_agent import ScriptedAgent, scripted_agent

ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"
ISSUE = AgentIssue(kind=IssueKind.MODEL_FILE_DOES_NOT_EXIST, model_path="/m.gguf", detail="No file /m.gguf.")


async def answer(agent: ScriptedAgent, work: Generate) -> None:
    await agent.serve(work, *[" word"] * min(work.max_tokens or 4, 4))


@asynccontextmanager
async def agent_of(address: Address) -> AsyncIterator[ScriptedAgent]:
    fields: dict[str, Any] = {"model_path": "/models/tiny.gguf", "vocabulary_size": 1000, "request_limit_tokens": 4096}
    async with scripted_agent(f"http://{address}", slots=4, play=answer, name="\x1b[2Jnasty", **fields) as agent:
        yield agent


def at(address: Address) -> tuple[str, str]:
    return "--management-addr", str(address)


async def test_a_balancer_process_is_watched_and_loaded() -> None:
    async with BalancerProcess.started() as process, agent_of(process.management_address):
        management = at(process.management_address)
        status = await run("status", *management)
        assert (status.status, status.err) == (0, "")
        assert status.out.startswith("HEALTHY   1 agent, 0 of 4 slots busy")
        assert "\x1b" not in status.out
        assert "?[2Jnasty" in status.out

        load = ("--requests", "6", "--streams", "3", "--prompt-tokens", "4", "--max-tokens", "4")
        bench = await run("bench", f"http://{process.inference_address}", *load)
        assert (bench.status, bench.err) == (0, "")
        assert "(24 tokens in" in bench.out
        assert "(6 requests answered)" in bench.out

        top = await run("top", "--once", "--interval", "100ms", *management)
        assert top.status == 0
        lines = top.out.splitlines()
        assert "READY" in lines[0]
        assert "tokens/s" in lines[2]
        assert "first token p50 -" not in lines[3]  # the bench's are in it
        assert lines[-1].startswith("?[2Jnasty  0/4    serving")
        assert all(len(line) <= 100 for line in lines)
        assert await live_top_until_interrupted(*management) == 0


async def live_top_until_interrupted(*flags: str) -> int:
    """Its exit status. It draws on the other screen of a terminal and leaves the terminal as it was."""
    ours, its = pty.openpty()
    process = await asyncio.create_subprocess_exec(*COMMAND[:-1], "top", *flags, cwd=ROOT, stdin=its, stdout=its)
    os.close(its)
    try:
        drawn = await read_until(ours, b"READY")
        assert drawn.startswith(ENTER)
        process.send_signal(signal.SIGINT)
        assert (await read_until(ours, LEAVE)).endswith(LEAVE)
        return await process.wait()
    finally:
        os.close(ours)


async def read_until(terminal: int, part: bytes) -> bytes:
    read = b""
    async with asyncio.timeout(20):
        while part not in read:
            read += await asyncio.to_thread(os.read, terminal, 1 << 16)
    return read


async def test_the_compat_apis_are_loaded_with_the_first_model_they_list() -> None:
    async with running_balancer() as balancer, agent_of(balancer.management_address):
        url = f"http://{balancer.compat_address}"
        model = {"model": {"LocalToAgent": "/models/tiny.gguf"}}
        await put(balancer, model)
        few = ("--requests", "2", "--streams", "1", "--prompt-tokens", "4", "--max-tokens", "4")
        for api, count in (("completions", "8 tokens"), ("complete", "pieces of text")):
            bench = await run("bench", url, "--api", api, *few)
            assert (bench.status, bench.err) == (0, ""), bench
            assert count in bench.out
        wrong = await run("bench", f"http://{balancer.inference_address}", "--api", "completions", *few)
        assert wrong.status == 3
        assert "--compat-addr" in wrong.err


async def put(balancer: Balancer, changes: dict[str, Any]) -> None:
    await asyncio.to_thread(put_now, balancer, changes)


def put_now(balancer: Balancer, changes: dict[str, Any]) -> None:
    url = f"http://{balancer.management_address}/api/v1/balancer_desired_state"
    with urllib.request.urlopen(url, timeout=10) as stored:
        document = {**json.load(stored), **changes}
    asked = urllib.request.Request(
        url, json.dumps(document).encode(), {"Content-Type": "application/json"}, method="PUT"
    )
    urllib.request.urlopen(asked, timeout=10).close()


async def test_a_bench_counts_what_fails_by_its_kind() -> None:
    async with running_balancer(max_buffered_requests=0) as balancer:
        bench = await run("bench", f"http://{balancer.inference_address}", "--requests", "3", "--max-tokens", "4")
    assert bench.status == 1
    assert "FAILED 3 requests of 3:" in bench.out
    assert "       3  503 Buffered requests overflow" in bench.out
    assert "-> the room was full" in bench.out


async def test_what_is_wrong_is_said_and_is_the_exit_status() -> None:
    async with running_balancer() as balancer:
        nobody = await run("status", *at(balancer.management_address))
        assert nobody.status == 1
        assert f"steersman agent --management-addr {balancer.management_address}" in " ".join(nobody.out.split())
        async with agent_of(balancer.management_address) as agent:
            await agent.say_status(4, issues=[ISSUE])
            await wait_until(lambda: bool(balancer.switchboard.fleet().agents[0].status.issues))
            text = await run("status", *at(balancer.management_address))
            document = await run("status", "--json", *at(balancer.management_address))
    assert text.status == document.status == 1
    assert "! ?[2Jnasty: No file /m.gguf." in text.out
    found = json.loads(document.out)
    assert (found["healthy"], found["ready"]["ready"]) == (False, True)
    assert found["fleet"]["agents"][0]["name"] == "\x1b[2Jnasty"


async def test_who_does_not_answer_and_who_refuses_is_said(tmp_path: Path) -> None:
    token, other = tmp_path / "token", tmp_path / "other"
    for file in (token, other):
        file.write_text(f"{file.name}-secret\n", encoding="utf-8")
        file.chmod(0o600)
    async with running_balancer(management_token_file=token) as balancer:
        where = balancer.management_address
        address = at(where)
        flag = "--management-token-file"
        without, wrong = await run("status", *address), await run("status", *address, flag, str(other))
        right = await run("top", "--once", "--interval", "100ms", *address, flag, str(token))
        missing = await run("status", *address, flag, str(tmp_path / "none"))
        clients = await run("status", *at(balancer.inference_address), flag, str(token))
        no_tls = await run("status", "--tls", *address)
    gone = await run("status", *address)
    assert (without.status, wrong.status, right.status, missing.status) == (2, 2, 0, 2)
    assert f"give {flag} FILE" in without.err
    assert "refuses the token" in wrong.err
    assert "secret" not in wrong.err
    assert (clients.status, gone.status, no_tls.status) == (3, 3, 3)
    assert "not the management service" in clients.err
    assert f"nobody answers at {where} (Connection refused)" in gone.err
    assert "does not speak TLS" in no_tls.err


@pytest.mark.skipif(OPENSSL is None, reason="needs the openssl command to make certificates")
async def test_tls_is_spoken_with_whom_one_trusts(tmp_path: Path) -> None:
    certificate = await asyncio.to_thread(self_signed, tmp_path, "first")
    other = await asyncio.to_thread(self_signed, tmp_path, "second")
    async with running_balancer(tls_cert=certificate.cert, tls_key=certificate.key) as balancer:
        address = at(balancer.management_address)
        trusted = await run("state", "get", *address, "--cacert", str(certificate.cert))
        distrusted = await run("status", *address, "--cacert", str(other.cert))
        plain = await run("status", *address)
    assert trusted.status == 0, trusted.err
    assert (distrusted.status, plain.status) == (3, 3)
    assert "--cacert FILE" in distrusted.err
    assert "--tls" in plain.err


async def test_top_follows_changes_and_comes_back_after_the_balancer_went_away() -> None:
    pictures: list[list[str]] = []
    async with AsyncExitStack() as first:
        address = (await first.enter_async_context(running_balancer())).management_address
        async with management_client(ConnectionSettings(management_addr=address)) as client:
            following = asyncio.create_task(LiveView(client, 0.1).follow(pictures.append))
            await wait_until(lambda: bool(pictures) and "no agent" in pictures[-1][-1])
            async with agent_of(address):
                await wait_until(lambda: "nasty" in pictures[-1][-1])
            await first.aclose()
            await wait_until(lambda: "AWAY for" in pictures[-1][0])
            async with running_balancer(management_addr=address):
                await wait_until(lambda: "NOT READY: no agent" in pictures[-1][0])
            following.cancel()
            await asyncio.wait([following])


async def test_top_needs_a_terminal_or_once() -> None:
    ran = await run("top")
    assert ran.status == 2
    assert "steersman top --once" in ran.err


async def test_a_bench_of_another_machine_is_asked_for_twice() -> None:
    ran = await run("bench", "http://192.0.2.1:8061")
    assert ran.status == 2
    assert "--yes" in ran.err
