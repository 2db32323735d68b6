"""Grammar rules with options, asked for over the wire: bounds in tokens, and temperatures of their own."""

import asyncio
from typing import Any

import pytest

from agent.constraint.languages.ebnf import parse_ebnf
from tests.support.constraint_recogniser import language_contains
from tests.support.native_stream import RAW_PROMPT_PATH, Generated, NativeStream
from tests.support.raw_http import RawConnection
from tests.support.running_fleet import DEADLINE_SECONDS, RunningFleet

pytestmark = pytest.mark.model

LETTERS = "root ::= words\nwords{options} ::= [a-z ]{{30}}"
THINKING = 'root ::= think "\\nAnswer: " [0-9]{1,3}\nthink[max_tokens=12] ::= [^\\n]+'


@pytest.fixture(scope="module")
def fleet(demo_fleet: RunningFleet) -> RunningFleet:
    return demo_fleet


async def answer_to(fleet: RunningFleet, grammar: dict[str, Any], **sampling: Any) -> Generated:
    body = {"raw_prompt": "The sea is", "max_tokens": 80, "grammar": grammar, "sampling": sampling}
    async with RawConnection.to(fleet.inference, deadline_seconds=DEADLINE_SECONDS) as connection:
        await connection.post(RAW_PROMPT_PATH, body)
        return await NativeStream(connection).read_all()


def ebnf(text: str) -> dict[str, Any]:
    return {"type": "ebnf", "grammar": text}


async def test_a_rule_has_no_more_tokens_than_it_may_have(fleet: RunningFleet) -> None:
    answers = await asyncio.gather(*(answer_to(fleet, ebnf(THINKING), temperature=1.2) for _ in range(8)))
    for answer in answers:
        assert answer.finish_reason == "stop"
        assert language_contains(parse_ebnf(THINKING), answer.text), answer.text
        until_the_answer = [count for count in range(len(answer.pieces)) if "\n" in "".join(answer.pieces[: count + 1])]
        assert 1 <= until_the_answer[0] <= 12, answer.pieces
    assert any("\n" in answer.pieces[12] for answer in answers), "none had as many as it may have"


@pytest.mark.parametrize(("of_the_rule", "of_the_request", "differ"), [(0, 1.5, False), (1.5, 0, True)])
async def test_the_temperature_of_an_open_rule_counts(
    fleet: RunningFleet, of_the_rule: float, of_the_request: float, differ: bool
) -> None:
    grammar = ebnf(LETTERS.format(options=f"[temperature={of_the_rule}]"))
    answers = [await answer_to(fleet, grammar, temperature=of_the_request) for _ in range(5)]
    assert all(len(answer.text) == 30 for answer in answers)
    assert (len({answer.text for answer in answers}) > 1) is differ


async def test_text_of_a_structural_tag_is_bounded_in_tokens(fleet: RunningFleet) -> None:
    think = {"type": "tag", "begin": "<think>", "content": {"type": "any_text", "max_tokens": 8}, "end": "</think>"}
    document = {"type": "json_schema", "json_schema": {"type": "boolean"}}
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": [think, document]}}
    for _ in range(4):
        answer = await answer_to(fleet, {"type": "structural_tag", "structural_tag": tag}, temperature=1.0)
        assert answer.finish_reason == "stop"
        assert answer.text.startswith("<think>")
        assert answer.text.endswith(("</think>true", "</think>false"))
        assert len(answer.pieces) <= 8 + 12
