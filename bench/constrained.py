"""Constrained generation as a ratio to our own free one, and to llama-server's constrained one, in one run."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

from bench import protocol, report, streams
from bench.constraints import CONSTRAINTS, Constraint
from bench.prompts import Tokenize, exact_prompt

STREAMS: Final = (1, 8)
TO_FREE: Final = report.Target(1.0)
TO_SERVER: Final = report.Target(1.2)
TO_SERVER_LARGE: Final = report.Target(2.5)
"""On the large vocabulary, over which the peer's own sampler walks token by token."""

_SERVER_GREEDY: Final[dict[str, Any]] = {"temperature": 0.0, "top_k": 1, "cache_prompt": False}
_FREE: Final = "free"

Rates = dict[tuple[str, str, int], list[float]]
"""Per side, constraint and number of streams, one value per round."""


def measure(model: protocol.Model, ours: str, server: str, tokenize: Tokenize) -> str:
    """The table. Addresses of both servers, which serve the model; ours greedily."""
    rates: Rates = defaultdict(list)
    bench = _Bench(ours, server, tokenize)
    for constraint in CONSTRAINTS:
        bench.rates_of(constraint, 1)  # compiles it, and warms both up
    for _ in range(protocol.ROUNDS):
        for count in STREAMS:
            rates["ours", _FREE, count].append(bench.free_rate(count))
            for constraint in CONSTRAINTS:
                for side, rate in bench.rates_of(constraint, count).items():
                    rates[side, constraint.name, count].append(rate)
    return _table(model, rates)


class _Bench:
    """Runs streams; each takes new prompts."""

    def __init__(self, ours: str, server: str, tokenize: Tokenize) -> None:
        self._ours = ours
        self._server = server
        self._tokenize = tokenize
        self._seeds: Iterator[int] = iter(range(2_000_000, 3_000_000))

    def free_rate(self, count: int) -> float:
        """Our own tokens per second without a constraint."""
        return streams.steady_rate(self._run(self._ours, streams.STEERSMAN, self._prompts(count), {}))

    def rates_of(self, constraint: Constraint, count: int) -> dict[str, float]:
        """Both sides on the same prompts. Raises SystemExit when one of them makes another number of tokens."""
        prompts = self._prompts(count)
        lines = {
            "ours": self._run(self._ours, streams.STEERSMAN, prompts, constraint.ours),
            "server": self._run(self._server, streams.LLAMA_SERVER, prompts, _SERVER_GREEDY | constraint.theirs),
        }
        for side, one in lines.items():
            if not _are_whole(one):
                raise SystemExit(f"{side}, {constraint.name}: {[line.tokens for line in one]} tokens")
        return {side: streams.steady_rate(one) for side, one in lines.items()}

    def _prompts(self, count: int) -> list[str]:
        return [exact_prompt(self._tokenize, protocol.PROMPT_TOKENS, next(self._seeds)) for _ in range(count)]

    def _run(
        self, address: str, dialect: streams.Dialect, prompts: list[str], fields: dict[str, Any]
    ) -> list[streams.Timeline]:
        return asyncio.run(streams.run_streams(address, dialect, prompts, protocol.OUTPUT_TOKENS, fields))


def _are_whole(lines: list[streams.Timeline]) -> bool:
    return all(line.tokens == protocol.OUTPUT_TOKENS for line in lines)


def _table(model: protocol.Model, rates: Rates) -> str:
    rows = []
    to_server = TO_SERVER_LARGE if model.has_large_vocabulary else TO_SERVER
    for constraint in CONSTRAINTS:
        for count in STREAMS:
            free, ours = rates["ours", _FREE, count], rates["ours", constraint.name, count]
            server = rates["server", constraint.name, count]
            beside_free = median(a / b for a, b in zip(ours, free, strict=True))
            beside_server = median(a / b for a, b in zip(ours, server, strict=True))
            rows.append(
                (
                    *(constraint.name, str(count), report.spread(free), report.spread(ours), report.spread(server)),
                    f"{beside_free:.2f} {TO_FREE.verdict(beside_free)}",
                    f"{beside_server:.2f} {to_server.verdict(beside_server)}",
                )
            )
    header = (
        *("constraint", "streams", "ours, free tok/s", "ours tok/s", "llama-server tok/s"),
        *("ours / free", "ours / server"),
    )
    return report.table(f"{model.name}, constrained, greedy", header, rows)
