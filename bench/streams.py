"""Clients of a measurement: open streams, note when tokens arrive, and touch the machine as little as they can."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one server is asked and answers: path, body of a prompt, and what marks a token in the stream."""

    path: str
    token_mark: bytes
    end_mark: bytes
    generated_tokens: Any  # last line (parsed JSON) -> tokens

    def body(self, prompt: str, tokens: int, fields: dict[str, Any]) -> bytes:
        """The request's JSON. `fields` are sampling and constraint; ours takes its sampling from the fleet."""
        if self is STEERSMAN:
            # A constraint says itself where the output ends.
            own = {"grammar": fields["grammar"]} if "grammar" in fields else {"sampling": {"ignore_eos": True}}
            return json.dumps({"raw_prompt": prompt, "max_tokens": tokens, **own}).encode()
        whole = {"prompt": prompt, "n_predict": tokens, "stream": True, "ignore_eos": True, **fields}
        return json.dumps(whole).encode()


STEERSMAN = Dialect(
    path="/api/v1/continue_from_raw_prompt",
    token_mark=b'"ContentToken"',
    end_mark=b'"Done"',
    generated_tokens=lambda line: line["Response"]["response"]["GeneratedToken"]["Done"]["usage"]["content_tokens"],
)
LLAMA_SERVER = Dialect(
    path="/completion",
    token_mark=b'"stop":false',
    end_mark=b'"stop":true',
    generated_tokens=lambda line: line["tokens_predicted"],
)


@dataclass(frozen=True, slots=True)
class Timeline:
    """One stream as its client saw it. Times in seconds of one monotonic clock."""

    started: float
    arrivals: tuple[tuple[float, int], ...]  # (time, events in that read)
    ended: float
    tokens: int

    @property
    def first_token_seconds(self) -> float:
        """Time to first token."""
        return self.arrivals[0][0] - self.started


async def run_streams(
    base: str, dialect: Dialect, prompts: Sequence[str], tokens: int, fields: dict[str, Any]
) -> list[Timeline]:
    """All prompts at once, one connection each."""
    return await asyncio.gather(*(_run_stream(base, dialect, prompt, tokens, fields) for prompt in prompts))


async def _run_stream(base: str, dialect: Dialect, prompt: str, tokens: int, fields: dict[str, Any]) -> Timeline:
    where = urlsplit(base)
    body = dialect.body(prompt, tokens, fields)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 20)
    head = f"POST {dialect.path} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    started = time.monotonic()
    writer.write(head.encode() + body)
    arrivals: list[tuple[float, int]] = []
    received = bytearray()
    try:
        while chunk := await asyncio.wait_for(reader.read(1 << 16), 300):
            received += chunk
            if events := chunk.count(dialect.token_mark):
                arrivals.append((time.monotonic(), events))
    finally:
        writer.close()
    return Timeline(started, tuple(arrivals), time.monotonic(), _tokens_of(dialect, bytes(received)))


def _tokens_of(dialect: Dialect, received: bytes) -> int:
    """What the server itself counted. Raises RuntimeError when the stream did not end as it should."""
    for line in received.splitlines():
        if dialect.end_mark in line:
            return int(dialect.generated_tokens(json.loads(line[line.index(b"{") :])))
    raise RuntimeError(f"a stream ended without its last line: {received[-500:]!r}")


def steady_rate(timelines: Sequence[Timeline]) -> float:
    """Tokens per second of all streams together, from the moment all of them generate until the first one ends."""
    begin = max(timeline.arrivals[0][0] for timeline in timelines)
    end = min(timeline.arrivals[-1][0] for timeline in timelines)
    if end <= begin:
        raise RuntimeError("the streams did not overlap: nothing to measure")
    counted = sum(events for line in timelines for moment, events in line.arrivals if begin < moment <= end)
    return counted / (end - begin)
