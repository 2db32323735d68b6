"""Every request that docs/structured-output.md shows does what the document says. Read as a shell reads it."""

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from agent.constraint.languages.ebnf import parse_ebnf
from agent.constraint.languages.gbnf import parse_gbnf
from tests.support.constraint_recogniser import language_contains
from tests.support.native_stream import RAW_PROMPT_PATH, Generated, NativeStream
from tests.support.raw_http import RawConnection
from tests.support.running_fleet import DEADLINE_SECONDS, RunningFleet

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "structured-output.md"
URL = f"http://127.0.0.1:8061{RAW_PROMPT_PATH}"
TYPES = ["json_schema", "regex", "gbnf", "ebnf", "ebnf", "structural_tag", "structural_tag"]

pytestmark = pytest.mark.model

Json = dict[str, Any]


@pytest.fixture(scope="module")
def fleet(demo_fleet: RunningFleet) -> RunningFleet:
    return demo_fleet


def bodies() -> list[Json]:
    """What each `curl` of the document sends."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        words = shlex.split(block)
        assert words[:3] == ["curl", "-N", URL], words[:3]
        assert words[3:6] == ["-H", "Content-Type: application/json", "-d"]
        assert len(words) == 7
        found.append(json.loads(words[6]))
    return found


async def answer_to(fleet: RunningFleet, body: Json) -> Generated:
    async with RawConnection.to(fleet.inference, deadline_seconds=DEADLINE_SECONDS) as connection:
        await connection.post(RAW_PROMPT_PATH, body)
        return await NativeStream(connection).read_all()


def is_as_asked(grammar: Json, text: str) -> bool:
    match grammar["type"]:
        case "json_schema":
            return is_city(json.loads(text))
        case "regex":
            return re.fullmatch(grammar["pattern"], text) is not None
        case "gbnf":
            return language_contains(parse_gbnf(grammar["grammar"], grammar["root"]), text)
        case "ebnf":
            return language_contains(parse_ebnf(grammar["grammar"]), text)
        case _:
            return is_call(text)


def is_city(value: Any) -> bool:
    return (
        {"city", "capital", "inhabitants"} <= set(value) <= {"city", "capital", "inhabitants", "size"}
        and re.fullmatch("[A-Z][a-z]{1,20}", value["city"]) is not None
        and isinstance(value["capital"], bool)
        and 0 <= value["inhabitants"] <= 99_999_999
        and value.get("size", "small") in ("small", "medium", "large")
    )


def is_call(text: str) -> bool:
    """One of the two tools, or sums with text after the first."""
    weather = re.fullmatch(r"<function=weather>(\{.*\})</function>", text, re.DOTALL)
    if weather is not None:
        value = json.loads(weather.group(1))
        return set(value) == {"city"} and len(value["city"]) <= 20
    if text.startswith("<add"):
        return re.fullmatch(r"<add>[0-9]{1,2}</add>((?!<add).|<add>[0-9]{1,2}</add>)*", text, re.DOTALL) is not None
    return re.fullmatch(r"<function=time>[A-Z]{3}</function>", text) is not None


async def test_every_request_of_the_document_does_what_it_says(fleet: RunningFleet) -> None:
    sent = bodies()
    assert [body["grammar"]["type"] for body in sent] == TYPES
    answers = await asyncio.gather(*(answer_to(fleet, body) for body in sent))
    for body, answer in zip(sent, answers, strict=True):
        is_open_ended = "structures" in body["grammar"].get("structural_tag", {})  # free text goes on after the call
        assert answer.finish_reason == "stop" or is_open_ended, (body["grammar"], answer.text)
        assert is_as_asked(body["grammar"], answer.text), (body["grammar"], answer.text)
