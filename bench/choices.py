"""What several choices of one long prompt cost beside a single one, and how often a seed's text depends on company."""

import asyncio
import json
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from bench import protocol, report
from bench.prompts import Tokenize, exact_prompt
from bench.steersman_fleet import GREEDY, Fleet, fetch_json, fetch_metric, running_fleet

_CHOICES = 8
_TOKENS = 8
_ROUNDS = 3
_SEEDS = 16
_SEEDED_TOKENS = 48
_EVALUATED = "steersman_fleet_evaluated_prompt_tokens_total"
_SETTLES_SECONDS = 7  # an agent's figures come with its heartbeats


@dataclass(frozen=True, slots=True)
class _Answer:
    """Texts by choice, and seconds until the last of the choices had its first event."""

    texts: tuple[str, ...]
    last_choice_seconds: float


def measure(model: protocol.Model, tokenize: Tokenize, work: Path) -> str:
    """Both tables."""
    with running_fleet(work, _CHOICES) as fleet:
        fleet.put_state(model, _CHOICES, GREEDY)
        return f"{_sharing(model, fleet, tokenize)}\n{_company(model, fleet, tokenize)}"


def _sharing(model: protocol.Model, fleet: Fleet, tokenize: Tokenize) -> str:
    """n=8 against n=1 over prompts that nothing has cached."""
    seeds = count(20_001)
    evaluated: dict[int, list[float]] = {1: [], _CHOICES: []}
    seconds: dict[int, list[float]] = {1: [], _CHOICES: []}
    for _ in range(_ROUNDS):
        for choices in evaluated:
            prompt = tokenize(exact_prompt(tokenize, protocol.SHARED_PREFIX_TOKENS, next(seeds)))
            before = fetch_metric(fleet.management, _EVALUATED)
            fields = {"prompt": prompt, "n": choices, "max_tokens": _TOKENS, "temperature": 1.0, "ignore_eos": True}
            answer = asyncio.run(_ask(fleet.compat, fields))
            time.sleep(_SETTLES_SECONDS)
            evaluated[choices].append(fetch_metric(fleet.management, _EVALUATED) - before)
            seconds[choices].append(answer.last_choice_seconds)
    title = f"{model.name}: {_CHOICES} choices of one {protocol.SHARED_PREFIX_TOKENS}-token prompt"
    rows = []
    for name, values, unit, digits in (
        ("prompt tokens evaluated", evaluated, "", 0),
        ("first token of the last choice", seconds, " s", 2),
    ):
        ratio = median(values[_CHOICES]) / median(values[1])
        verdict = f"{ratio:.2f} {report.Target(1.3, at_least=False).verdict(ratio)}"
        shown = (report.spread(values[choices], unit, digits) for choices in (1, _CHOICES))
        rows.append((name, *shown, verdict))
    return report.table(title, ("", "n=1", f"n={_CHOICES}", "ratio"), rows)


def _company(model: protocol.Model, fleet: Fleet, tokenize: Tokenize) -> str:
    """The same seeds alone (the second time with a warm cache) and all at once: the draws are the same, the logits
    differ by the noise of another batch, so now and then a text does."""
    prompt = tokenize(exact_prompt(tokenize, protocol.PROMPT_TOKENS, 30_001))
    requests = [
        {"prompt": prompt, "seed": seed, "max_tokens": _SEEDED_TOKENS, "temperature": 1.0, "ignore_eos": True}
        for seed in range(_SEEDS)
    ]
    alone, warm = ([asyncio.run(_ask(fleet.compat, one)).texts for one in requests] for _ in range(2))
    beside = asyncio.run(_all_at_once(fleet.compat, requests))
    rows = []
    for name, texts in (("alone again, prompt cached", warm), (f"{_CHOICES} at once", beside)):
        same = sum(one == other for one, other in zip(alone, texts, strict=True))
        rows.append((name, str(_SEEDS), str(_SEEDS - same)))
    title = f"{model.name}: texts of {_SEEDED_TOKENS} tokens that differ from those of the same seed alone"
    return report.table(title, ("run", "texts", "differ"), rows)


async def _all_at_once(compat: str, requests: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    at_once = asyncio.Semaphore(_CHOICES)

    async def one(fields: dict[str, Any]) -> tuple[str, ...]:
        async with at_once:
            return (await _ask(compat, fields)).texts

    return await asyncio.gather(*(one(fields) for fields in requests))


async def _ask(compat: str, fields: dict[str, Any]) -> _Answer:
    """Stream one completion of the one model that is served. Raises RuntimeError when it does not end well."""
    name = fetch_json(f"{compat}/v1/models")["data"][0]["id"]
    where = urlsplit(compat)
    body = json.dumps({"model": name, "stream": True, **fields}).encode()
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 20)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    started = time.monotonic()
    texts: dict[int, str] = {}
    last_choice = started
    try:
        while line := await asyncio.wait_for(reader.readline(), 300):
            if line.strip() == b"data: [DONE]":
                return _Answer(tuple(text for _, text in sorted(texts.items())), last_choice - started)
            for choice in json.loads(line[6:]).get("choices", ()) if line.startswith(b"data: {") else ():
                if choice["index"] not in texts:
                    last_choice = time.monotonic()
                texts[choice["index"]] = texts.get(choice["index"], "") + (choice["text"] or "")
    finally:
        writer.close()
    raise RuntimeError("a completion ended without [DONE]")
