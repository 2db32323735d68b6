"""Time to first token of clients that share a long prefix: cold, and after one earlier request left it warm."""

import asyncio
from pathlib import Path
from statistics import median

from bench import peers, protocol, report, streams
from bench.prompts import Tokenize, exact_prompt
from bench.steersman_fleet import GREEDY, running_fleet

_TOKENS = 8
_SAMPLING = {"temperature": 0.0, "top_k": 1, "cache_prompt": True}


def measure(model: protocol.Model, peer: peers.Peer, tokenize: Tokenize, work: Path) -> str:
    """Eight clients at once, each with its own question behind the same prefix."""
    slots = protocol.SHARED_PREFIX_CLIENTS
    rows = []
    with running_fleet(work, slots) as fleet, peers.running_server(peer, model, slots, work) as (server, _):
        fleet.put_state(model, slots, GREEDY)
        ours = _situations(fleet.inference, streams.STEERSMAN, tokenize)
        theirs = _situations(server, streams.LLAMA_SERVER, tokenize)
        for situation, target in (("cold", None), ("warm", report.Target(0.05, at_least=False))):
            ratio = ours[situation] / theirs[situation]
            verdict = f"{ratio:.3f} {target.verdict(ratio) if target else ''}"
            rows.append((situation, f"{ours[situation]:.3f} s", f"{theirs[situation]:.3f} s", verdict))
    title = f"{model.name}: {slots} clients share {protocol.SHARED_PREFIX_TOKENS} tokens, time to first token (median)"
    return report.table(title, ("prefix", "ours", "llama-server", "ours / server"), rows)


def _situations(address: str, dialect: streams.Dialect, tokenize: Tokenize) -> dict[str, float]:
    cold = exact_prompt(tokenize, protocol.SHARED_PREFIX_TOKENS, 7001)
    warm = exact_prompt(tokenize, protocol.SHARED_PREFIX_TOKENS, 8002)
    asyncio.run(streams.run_streams(address, dialect, [warm + " Earlier."], _TOKENS, _SAMPLING))
    return {
        "warm": _first_token(address, dialect, warm),
        "cold": _first_token(address, dialect, cold),
    }


def _first_token(address: str, dialect: streams.Dialect, prefix: str) -> float:
    prompts = [f"{prefix} Question {number}" for number in range(protocol.SHARED_PREFIX_CLIENTS)]
    lines = asyncio.run(streams.run_streams(address, dialect, prompts, _TOKENS, _SAMPLING))
    return median(line.first_token_seconds for line in lines)
