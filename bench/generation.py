"""Tokens per second and time to first token, ours against llama-server and llama-batched-bench, in one run."""

import asyncio
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from bench import peers, protocol, report, streams
from bench.prompts import Tokenize, exact_prompt
from bench.steersman_fleet import DEFAULT_CHAIN, GREEDY, running_fleet

Rates = dict[tuple[str, int], list[float]]

_SERVER_GREEDY: dict[str, Any] = {"temperature": 0.0, "top_k": 1, "cache_prompt": False}
_SERVER_DEFAULT: dict[str, Any] = {
    "temperature": 0.8,
    "top_k": 80,
    "top_p": 0.8,
    "min_p": 0.05,
    "presence_penalty": 0.8,
    "repeat_penalty": 1.1,
    "repeat_last_n": -1,
    "samplers": ["penalties", "top_k", "top_p", "min_p", "temperature"],
    "cache_prompt": False,
}


def measure(model: protocol.Model, peer: peers.Peer, tokenize: Tokenize, work: Path) -> str:
    """Both chains at every number of streams; rounds of the two servers take turns."""
    command, batched = peers.batched_bench(peer, model)
    parts = [f"## {model.name}", "", f"    {command}"]
    slots = protocol.SLOTS
    with running_fleet(work, slots) as fleet, peers.running_server(peer, model, slots, work) as (server, process):
        parts += [f"    {process.command_line}", f"    {fleet.balancer.command_line}"]
        parts += [f"    {fleet.agents[0].command_line}", ""]
        for chain, ours, theirs in (
            ("greedy", GREEDY, _SERVER_GREEDY),
            ("default chain", DEFAULT_CHAIN, _SERVER_DEFAULT),
        ):
            fleet.put_state(model, slots, ours)
            sides = {
                "ours": (fleet.inference, streams.STEERSMAN),
                "server": (server, streams.LLAMA_SERVER),
            }
            rates, firsts = _rounds(sides, tokenize, theirs)
            parts.append(_table(f"{model.name}, {chain}", rates, firsts, batched))
    return "\n".join(parts)


def _rounds(
    sides: dict[str, tuple[str, streams.Dialect]], tokenize: Tokenize, sampling: dict[str, Any]
) -> tuple[Rates, Rates]:
    """Steady rates and median times to first token, per side and number of streams, one value per round."""
    rates: Rates = defaultdict(list)
    firsts: Rates = defaultdict(list)
    seeds = iter(range(1, 10**6))
    for round_number in range(-1, protocol.ROUNDS):  # round -1 warms both up and is not counted
        for count in protocol.STREAMS:
            prompts = [exact_prompt(tokenize, protocol.PROMPT_TOKENS, next(seeds)) for _ in range(count)]
            for side, (address, dialect) in sides.items():
                lines = asyncio.run(streams.run_streams(address, dialect, prompts, protocol.OUTPUT_TOKENS, sampling))
                _check_tokens(side, lines)
                if round_number >= 0:
                    rates[side, count].append(streams.steady_rate(lines))
                    firsts[side, count].append(median(line.first_token_seconds for line in lines))
    return rates, firsts


def _check_tokens(side: str, lines: list[streams.Timeline]) -> None:
    """A comparison of different amounts of work is none."""
    counts = [line.tokens for line in lines]
    if any(count != protocol.OUTPUT_TOKENS for count in counts):
        raise SystemExit(f"{side} generated {counts} tokens instead of {protocol.OUTPUT_TOKENS} each")


def _table(title: str, rates: Rates, firsts: Rates, batched: dict[int, float]) -> str:
    rows = []
    greedy = title.endswith("greedy")
    for count in protocol.STREAMS:
        ours, server = rates["ours", count], rates["server", count]
        to_server = median(a / b for a, b in zip(ours, server, strict=True))
        to_batched = median(ours) / batched[count]
        # The budget speaks of 8 streams; the other rows are shown without a verdict.
        server_target = report.Target(1.1).verdict(to_server) if count == 8 and greedy else ""
        batched_target = report.Target(0.92 if greedy else 0.85).verdict(to_batched) if count == 8 else ""
        rows.append(
            (
                str(count),
                report.spread(ours),
                report.spread(server),
                f"{batched[count]:.1f}",
                f"{to_server:.2f} {server_target}",
                f"{to_batched:.2f} {batched_target}",
                report.spread([1000 * value for value in firsts["ours", count]], " ms", 0),
                report.spread([1000 * value for value in firsts["server", count]], " ms", 0),
            )
        )
    header = (
        *("streams", "ours tok/s", "llama-server tok/s", "batched-bench tok/s"),
        *("ours / server", "ours / batched", "first token, ours", "first token, server"),
    )
    return report.table(title, header, rows)
