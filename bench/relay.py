"""What the balancer itself costs: relay throughput per core, added time to first token, memory per stream."""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench import report, streams
from bench.processes import Process, wait_until
from bench.steersman_fleet import Fleet, fetch_json, running_fleet

_STREAMS = 100
_TOKENS = 1000
_IDLE_STREAMS = 500
_ROUNDS = 3
_ROOM = ("--max-buffered-requests", "1000", "--buffered-request-timeout", "60s")


def measure(work: Path) -> str:
    """Three tables, all with scripted agents."""
    return "\n".join([_throughput(work), _added_latency(work), _memory(work)])


@contextmanager
def _scripted(
    work: Path, agents: int, slots: int, tokens: int, pause_ms: float, one_per_frame: bool = False
) -> Iterator[Fleet]:
    with running_fleet(work, slots, agents=0, flags=_ROOM) as fleet:
        address = fleet.management.removeprefix("http://")
        words = [
            sys.executable,
            "-m",
            "bench.scripted_agents",
            address,
            agents,
            slots,
            tokens,
            pause_ms,
            int(one_per_frame),
        ]
        with Process([str(word) for word in words], work / "scripted.log") as scripted:
            wait_until(lambda: _agents(fleet) == agents, f"{agents} scripted agents join", 60, [scripted])
            yield fleet


def _agents(fleet: Fleet) -> int:
    return len(fetch_json(f"{fleet.management}/api/v1/agents")["agents"])


def _throughput(work: Path) -> str:
    rates = {}
    for agents, per_frame in ((10, "10"), (10, "1"), (1000, "1")):
        slots = max(1, _STREAMS // agents)
        with _scripted(work, agents, slots, _TOKENS, 0, one_per_frame=per_frame == "1") as fleet:
            rates[agents, per_frame] = [_tokens_per_cpu_second(fleet) for _ in range(_ROUNDS)]
    rows = []
    for (agents, per_frame), values in rates.items():
        verdict = report.Target(40_000).verdict(median(values))
        rows.append((str(agents), per_frame, report.spread(values, digits=0), verdict))
    kept = median(rates[1000, "1"]) / median(rates[10, "1"])
    verdict = f"{kept:.2f} of that with 10 agents, {report.Target(0.9).verdict(kept)}"
    rows[-1] = (*rows[-1][:3], f"{rows[-1][3]}; {verdict}")
    title = f"Relay: tokens per second of balancer CPU time, {_STREAMS} streams"
    return report.table(title, ("scripted agents", "tokens per frame", "tokens / CPU second", "target"), rows)


def _tokens_per_cpu_second(fleet: Fleet) -> float:
    before = fleet.balancer.cpu_seconds()
    lines = asyncio.run(streams.run_streams(fleet.inference, streams.STEERSMAN, ["x"] * _STREAMS, _TOKENS, {}))
    return sum(line.tokens for line in lines) / (fleet.balancer.cpu_seconds() - before)


def _added_latency(work: Path) -> str:
    with _scripted(work, 1, 1, 1, 0) as fleet:
        firsts = []
        for _ in range(300):
            (line,) = asyncio.run(streams.run_streams(fleet.inference, streams.STEERSMAN, ["x"], 1, {}))
            firsts.append(1000 * line.first_token_seconds)
    row = (report.spread(firsts, " ms", 2), report.Target(2.0, at_least=False).verdict(median(firsts)))
    title = "Idle balancer, an agent that answers at once: time to first token (client, balancer and agent together)"
    return report.table(title, ("median (min-max) of 300", "target"), [row])


def _memory(work: Path) -> str:
    with _scripted(work, 10, _IDLE_STREAMS // 10, 10_000, 2000) as fleet:
        asyncio.run(_hold_streams(fleet, 1, lambda: None))
        first = fleet.balancer.resident_bytes()
        held: list[int] = []
        asyncio.run(_hold_streams(fleet, _IDLE_STREAMS, lambda: held.append(fleet.balancer.resident_bytes())))
    per_stream = (held[0] - first) / _IDLE_STREAMS / 1000
    rows = [
        ("after the first request", f"{first / 1e6:.1f} MB", report.Target(80, at_least=False).verdict(first / 1e6)),
        (f"per stream, {_IDLE_STREAMS} open", f"{per_stream:.1f} kB",
         report.Target(40, at_least=False).verdict(per_stream)),
    ]  # fmt: skip
    return report.table("Balancer memory", ("what", "resident", "target"), rows)


async def _hold_streams(fleet: Fleet, count: int, look: object) -> None:
    """Open `count` streams, wait until each has brought a token, look, and leave."""
    assert callable(look)
    host, port = fleet.inference.removeprefix("http://").split(":")
    body = streams.STEERSMAN.body("x", 10_000, {})
    head = f"POST {streams.STEERSMAN.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    connections = [await asyncio.open_connection(host, int(port)) for _ in range(count)]
    for _, writer in connections:
        writer.write(request)
    for reader, _ in connections:
        await asyncio.wait_for(reader.readuntil(b"ContentToken"), 60)
    look()
    for _, writer in connections:
        writer.close()
    deadline = time.monotonic() + 30
    while any(a["slots_processing"] for a in fetch_json(f"{fleet.management}/api/v1/agents")["agents"]):
        if time.monotonic() > deadline:
            raise TimeoutError("the slots of clients that left are still taken")
        await asyncio.sleep(0.1)
