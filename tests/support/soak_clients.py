"""Clients of a soak: each sends one random request, perhaps leaves early, and says how it was answered.

An answer is right when it ends with a terminal line (`Done`, an `Error` with a documented code and text, a terminal
variant) or is an HTTP refusal of the documented set, and when that end is one that this request may have.
"""

import asyncio
import json
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from shared.settings_sources import Address
from tests.support.native_stream import RAW_PROMPT_PATH, piece_of
from tests.support.raw_http import AnswerBroken, Head, RawConnection

# Longer than a wait in the room, an agent's silence and a second try together: the product must speak first.
READ_SECONDS: Final = 90.0
MAX_TOKENS: Final = 24
MAX_REQUEST_BYTES: Final = 128 * 1024

LEFT: Final = "left"
DONE: Final = "Done"
BAD_SCHEMA: Final = "GrammarSyntaxError"
REFUSED: Final = "Error 400"
AGENT_LOST: Final = "Error 502"
ROOM_FULL: Final = "Error 503, room full"
WAITED: Final = "Error 504, waited"
SILENT: Final = "Error 504, silent"
BAD_BODY: Final = "HTTP 400"
TOO_LARGE: Final = "HTTP 413"

_TEXTS: Final = {
    AGENT_LOST: (502, "Agent controller connection closed"),
    ROOM_FULL: (503, "Buffered requests overflow"),
    WAITED: (504, "Waiting for available slot timed out"),
    SILENT: (504, "Inference timed out after "),
}
_FLEETS_FAULT: Final = frozenset(_TEXTS)

_WORDS: Final = "the a river stone bird light of and under over sings falls old quiet seven where naïve 語 🙂".split()
_SHARED_PREFIX: Final = "You are a patient teacher. Answer in one short sentence and do not repeat the question.\n" * 4
_BAD_BODIES: Final = (
    b"",
    b"[]",
    b'{"raw_prompt": "x"',
    b'{"raw_prompt": "\\ud800", "max_tokens": 1}',
    b'{"raw_prompt": "x"}',
    b'{"raw_prompt": "x", "max_tokens": 1, "temperature": 1}',
    b'{"raw_prompt": "x", "max_tokens": -1}',
    b'{"raw_prompt": "x", "max_tokens": true}',
    b'{"raw_prompt": "x", "max_tokens": 1.0}',
    b'{"raw_prompt": null, "max_tokens": 1}',
    b'{"raw_prompt": "x", "max_tokens": 1, "max_tokens": 2}',
    b'{"raw_prompt": "x", "max_tokens": 1, "grammar": {"type": "no such"}}',
)


_KINDS: Final = {
    "short": 30,
    "long": 15,
    "shared": 20,
    "schema": 8,
    "none wanted": 3,
    "empty": 3,
    "too long": 3,
    "bad schema": 3,
    "bad body": 8,
    "too large": 2,
}


class WrongAnswer(Exception):
    """A client was not answered as it must be; the message says what came."""


@dataclass(frozen=True, slots=True)
class Leave:
    """`how`: close, reset or half_close; after so many lines, or after so many seconds whatever came."""

    how: str
    after_lines: int | None = None
    after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What one client does.

    `ends`: the outcomes that it may have. `answers`: where there are some, the only texts that may end with `stop`.
    """

    kind: str
    body: bytes
    ends: frozenset[str]
    max_tokens: int = 0
    leave: Leave | None = None
    answers: frozenset[str] = frozenset()


def random_plan(random: Random) -> Plan:
    """Mostly good requests; a third leaves early."""
    (kind,) = random.choices(list(_KINDS), list(_KINDS.values()))
    leave = _random_leave(random) if random.random() < 0.33 else None
    if kind == "bad body":
        return Plan(kind, random.choice(_BAD_BODIES), frozenset({BAD_BODY}), leave=leave)
    if kind == "too large":
        return Plan(kind, _body("x" * (MAX_REQUEST_BYTES + 1), 1), frozenset({TOO_LARGE}))
    if kind == "none wanted":
        return Plan(kind, _body("x", 0), frozenset({DONE}), leave=leave)
    if kind == "bad schema":
        asked = _body("x", 1, {"type": "no such type"})
        return Plan(kind, asked, frozenset({BAD_SCHEMA}) | _FLEETS_FAULT, leave=leave)
    if kind == "schema":
        # Often a schema that was not compiled yet, so that compiling goes on all the time.
        words = random.sample(_WORDS, 5)
        asked = _body(_prompt("short", random), MAX_TOKENS, {"enum": words})
        answers = frozenset(json.dumps(word, ensure_ascii=False) for word in words)
        return Plan(kind, asked, frozenset({DONE}) | _FLEETS_FAULT, MAX_TOKENS, leave, answers)
    max_tokens = random.randint(1, MAX_TOKENS)
    # A model that begins every prompt with a token of its own can go on from an empty one.
    good = {"empty": {REFUSED, DONE}, "too long": {REFUSED}}.get(kind, {DONE})
    if kind in ("long", "shared"):  # one of the states that come and go has a context of 64 tokens
        good = {REFUSED, DONE}
    asked = _body(_prompt(kind, random), max_tokens)
    return Plan(kind, asked, frozenset(good) | _FLEETS_FAULT, max_tokens, leave)


def _prompt(kind: str, random: Random) -> str:
    match kind:
        case "long":
            return _words(random, 40, 90)
        case "shared":
            return _SHARED_PREFIX + _words(random, 1, 6)
        case "empty":
            return ""
        case "too long":  # for every model, whatever its context
            return _words(random, 12_000, 12_000)
        case _:
            return _words(random, 1, 8)


def _body(prompt: str, max_tokens: int, schema: dict[str, Any] | None = None) -> bytes:
    body: dict[str, Any] = {"raw_prompt": prompt, "max_tokens": max_tokens}
    if schema is not None:
        body["grammar"] = {"type": "json_schema", "schema": schema}
    return json.dumps(body, ensure_ascii=False).encode()


def _words(random: Random, least: int, most: int) -> str:
    return " ".join(random.choices(_WORDS, k=random.randint(least, most)))


def _random_leave(random: Random) -> Leave:
    how = random.choice(("close", "reset", "half_close"))
    if random.random() < 0.5:
        return Leave(how, after_lines=random.randint(1, MAX_TOKENS // 2))
    return Leave(how, after_seconds=random.choice((0.0, random.uniform(0.0, 2.0))))


async def carry_out(plan: Plan, address: Address) -> str:
    """Send, read, perhaps leave; the outcome. Raises WrongAnswer."""
    async with RawConnection.to(address, deadline_seconds=READ_SECONDS) as client:
        await client.post(RAW_PROMPT_PATH, plan.body)
        seconds = plan.leave.after_seconds if plan.leave else None
        try:
            async with asyncio.timeout(seconds) as patience:
                outcome = await _read_answer(client, plan)
        except TimeoutError:
            if not patience.expired():
                raise WrongAnswer(f"nothing came for {READ_SECONDS:.0f} s") from None
            outcome = LEFT
        except AnswerBroken as broken:
            raise WrongAnswer("the connection ended without a terminal line") from broken
        if outcome == LEFT and plan.leave is not None:
            await _leave(client, plan.leave)
        elif outcome not in plan.ends:
            raise WrongAnswer(f"{outcome}, which is none of {sorted(plan.ends)}")
        return outcome


async def _leave(client: RawConnection, leave: Leave) -> None:
    getattr(client, leave.how)()
    if leave.how == "half_close":
        try:
            await client.read_to_end()
        except AnswerBroken:
            pass  # closed with our unread data in flight
        except TimeoutError:
            raise WrongAnswer("its half was closed, and the balancer kept the other half open") from None


async def _read_answer(client: RawConnection, plan: Plan) -> str:
    """Until the end of the answer, or until it is time to leave."""
    head = await client.read_head()
    if head.status != 200:
        return f"HTTP {head.status}"
    lines: list[dict[str, Any]] = []
    async for chunk in client.chunks():
        if not chunk.endswith(b"\n"):
            raise WrongAnswer("a chunk ends inside a line")
        lines += [json.loads(line) for line in chunk.split(b"\n")[:-1]]
        if plan.leave is not None and plan.leave.after_lines is not None and len(lines) >= plan.leave.after_lines:
            return LEFT
    return _outcome_of(head, lines, plan)


def _outcome_of(head: Head, lines: list[dict[str, Any]], plan: Plan) -> str:
    """How a whole stream ended. Raises WrongAnswer when it is not in order."""
    if not lines:
        raise WrongAnswer("the stream ended without any line")
    if any(piece_of(line) is None for line in lines[:-1]):
        raise WrongAnswer("a terminal line stands before the last one")
    ids = {next(iter(line.values()))["request_id"] for line in lines}
    if ids != {head.headers["x-request-id"]}:
        raise WrongAnswer("lines of another request")
    if "Error" in lines[-1]:
        return _error_of(lines[-1]["Error"]["error"])
    ((variant, payload),) = lines[-1]["Response"]["response"]["GeneratedToken"].items()
    if variant == DONE:
        _check_usage(payload["usage"], len(lines) - 1, plan)
        if plan.answers and payload["finish_reason"] == "stop":
            _check_answer("".join(piece_of(line) or "" for line in lines[:-1]), plan)
    elif variant == "ContentToken":
        raise WrongAnswer("the stream ended without a terminal line")
    return str(variant)


def _error_of(error: dict[str, Any]) -> str:
    code, text = error["code"], error["description"]
    if code == 400 and text:
        return REFUSED
    for outcome, (known_code, beginning) in _TEXTS.items():
        if code == known_code and text.startswith(beginning):
            return outcome
    raise WrongAnswer(f"an undocumented error: {code} {text[:200]!r}")


def _check_answer(text: str, plan: Plan) -> None:
    if text not in plan.answers:
        raise WrongAnswer(f"{text[:100]!r} does not satisfy the schema: one of {sorted(plan.answers)}")


def _check_usage(usage: dict[str, int], visible: int, plan: Plan) -> None:
    sampled, prompt, cached = usage["content_tokens"], usage["prompt_tokens"], usage["cached_prompt_tokens"]
    if not visible <= sampled <= plan.max_tokens:
        raise WrongAnswer(f"{visible} lines of text, {sampled} tokens, at most {plan.max_tokens} wanted")
    # What a schema forces at its beginning brings the first logits, so that the whole prompt may come from the cache.
    if cached > max(0, prompt if plan.answers else prompt - 1):
        raise WrongAnswer(f"{cached} of {prompt} prompt tokens cached")
