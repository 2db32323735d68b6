"""Tokens per second and time to first token, ours against llama-server and llama-batched-bench, in one run; free first,
then constrained."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench import constrained, peers, protocol, report, streams
from bench.prompts import Tokenize, exact_prompt
from bench.steersman_fleet import DEFAULT_CHAIN, GREEDY, running_fleet

Rates = dict[tuple[str, int], list[float]]
Sides = dict[str, tuple[str, streams.Dialect]]

_SERVER_GREEDY: dict[str, Any] = {"temperature": 0.0, "top_k": 1, "cache_prompt": False}
_SERVER_DEFAULT: dict[str, Any] = {
    "temperature": 0.8,
    "top_k": 80,
    "top_p": 0.8,
    "min_p": 0.05,
    "presence_penalty": 0.8,
    "repeat_penalty": 1.1,
    "repeat_last_n": protocol.CONTEXT_TOKENS_PER_SLOT,  # the whole context, as ours
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
        seeds = iter(range(1, 10**6))  # no prompt comes twice: ours keeps what it evaluated
        for chain, ours, theirs in _chains(model):
            fleet.put_state(model, slots, ours)
            sides: Sides = {
                "ours": (fleet.inference, streams.STEERSMAN),
                "server": (server, streams.LLAMA_SERVER),
            }
            rates, firsts = _rounds(sides, tokenize, theirs, seeds)
            parts.append(_table(f"{model.name}, {chain}", rates, firsts, batched))
        fleet.put_state(model, slots, GREEDY)
        parts.append(constrained.measure(model, fleet.inference, server, tokenize))
    return "\n".join(parts)


def _chains(model: protocol.Model) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Greedy on both models. The default chain where it costs most: on the large vocabulary."""
    chains = [("greedy", GREEDY, _SERVER_GREEDY)]
    if model.has_large_vocabulary:
        chains.append(("default chain", DEFAULT_CHAIN, _SERVER_DEFAULT))
    return chains


def _rounds(sides: Sides, tokenize: Tokenize, sampling: dict[str, Any], seeds: Iterator[int]) -> tuple[Rates, Rates]:
    """Steady rates and median times to first token, per side and number of streams, one value per round."""
    rates: Rates = defaultdict(list)
    firsts: Rates = defaultdict(list)
    _one_round(sides, tokenize, 1, seeds, sampling)  # warms both up
    for _ in range(protocol.ROUNDS):
        for count in protocol.STREAMS:
            for side, lines in _one_round(sides, tokenize, count, seeds, sampling).items():
                rates[side, count].append(streams.steady_rate(lines))
                firsts[side, count].append(median(line.first_token_seconds for line in lines))
    return rates, firsts


def _one_round(
    sides: Sides, tokenize: Tokenize, count: int, seeds: Iterator[int], sampling: dict[str, Any]
) -> dict[str, list[streams.Timeline]]:
    """Both sides on the same prompts. Raises SystemExit when they do not do the same work."""
    prompts = [exact_prompt(tokenize, protocol.PROMPT_TOKENS, next(seeds)) for _ in range(count)]
    lines = {
        side: asyncio.run(streams.run_streams(address, dialect, prompts, protocol.OUTPUT_TOKENS, sampling))
        for side, (address, dialect) in sides.items()
    }
    if all(line.tokens == protocol.OUTPUT_TOKENS for side in lines.values() for line in side):
        return lines
    counts = {side: [line.tokens for line in one] for side, one in lines.items()}
    raise SystemExit(f"token counts differ from {protocol.OUTPUT_TOKENS}: {counts}")


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
