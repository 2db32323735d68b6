"""Grammars of every type through balancer, link and agent on a real model: whole, valid, and nobody's trouble but
their own."""

import asyncio
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from paddler_client.inference_message import InferenceMessageKind, parse_inference_client_message

from agent.llama.vocabulary import load_vocabulary
from tests.support.native_stream import Generated
from tests.support.running_fleet import RunningFleet
from tests.support.shared_fleet import SLOTS
from tests.support.tiny_model import demo_model_path

PROMPT = "The capital of France, as JSON: "
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "capital": {"type": "string", "maxLength": 12},
        "inhabitants": {"type": "integer", "minimum": 1, "maximum": 99_999_999},
        "continent": {"enum": ["Europe", "Asia", 'the "other"']},
    },
    "required": ["capital", "inhabitants", "continent"],
    "additionalProperties": False,
}
LIST = 'root ::= item+\nitem ::= "- " [a-z]+ "\\n"\n'
GREETING = 'root ::= "hello" name\n  | "bye" name\nname ::= " " [a-z]{2,5} "."\n'

pytestmark = pytest.mark.model

Grammar = dict[str, Any]


def gbnf(text: str, root: str = "root") -> Grammar:
    return {"type": "gbnf", "grammar": text, "root": root}


def schema(document: Any) -> Grammar:
    return {"type": "json_schema", "schema": document}


@pytest.fixture(scope="module")
def fleet(demo_fleet: RunningFleet) -> RunningFleet:
    return demo_fleet


def fits_schema(text: str) -> bool:
    found = json.loads(text)
    properties = SCHEMA["properties"]
    return (
        found.keys() == properties.keys()
        and isinstance(found["capital"], str)
        and len(found["capital"]) <= properties["capital"]["maxLength"]
        and isinstance(found["inhabitants"], int)
        and 1 <= found["inhabitants"] <= properties["inhabitants"]["maximum"]
        and found["continent"] in properties["continent"]["enum"]
    )


def is_match(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


TAGGED = {
    "type": "structural_tag",
    "format": {
        "type": "sequence",
        "elements": [
            {"type": "const_string", "value": "<answer>"},
            {"type": "json_schema", "json_schema": SCHEMA},
            {"type": "const_string", "value": "</answer>"},
        ],
    },
}


@pytest.mark.parametrize(
    ("grammar", "is_valid"),
    [
        (gbnf('start ::= [0-9]{4} "-" [0-9]{2} "-" [0-9]{2}', "start"), is_match(r"\d{4}-\d{2}-\d{2}")),
        ({"type": "ebnf", "grammar": GREETING}, is_match(r"(hello|bye) [a-z]{2,5}\.")),
        ({"type": "regex", "pattern": "(yes|no), [a-z]{2,9}!"}, is_match(r"(yes|no), [a-z]{2,9}!")),
        (schema(SCHEMA), fits_schema),
        (schema(json.dumps(SCHEMA)), fits_schema),
        (
            {"type": "structural_tag", "structural_tag": TAGGED},
            lambda text: fits_schema(text.removeprefix("<answer>").removesuffix("</answer>")),
        ),
    ],
    ids=["gbnf", "ebnf", "regex", "json_schema", "json_schema as text", "structural_tag"],
)
async def test_each_type_of_grammar_gives_a_whole_and_valid_answer(
    fleet: RunningFleet, grammar: Grammar, is_valid: Callable[[str], bool]
) -> None:
    answer = await fleet.ask(PROMPT, 200, grammar)
    assert answer.finish_reason == "stop", answer.text
    assert is_valid(answer.text), answer.text
    assert len(answer.pieces) <= answer.usage["content_tokens"] <= 200


BROKEN = ["root ::= foo", 'root ::= "abc', "root ::= [abc", 'root ::= ("a" | "b"', 'Root ::= "x"', 'root :== "x"']


async def test_a_bad_grammar_ends_its_own_request_and_nothing_else(fleet: RunningFleet) -> None:
    """Case C01: a NULL grammar killed the server."""
    agent = fleet.agents[0].pid
    bad = [*map(gbnf, BROKEN), gbnf('root ::= "\\d"+'), gbnf('root ::= "x"', root="nosuch")]
    for answer in await asyncio.gather(*(fleet.ask("Pick one:", 8, grammar) for grammar in bad)):
        name, sentence = answer.variant
        assert (name, len(answer.lines)) == ("GrammarInitializationFailed", 1)
        assert sentence
    wrong = await fleet.ask("Pick one:", 8, schema({"type": "object", "minProperties": "two"}))
    assert wrong.variant[0] == "GrammarSyntaxError"
    plain = await fleet.ask("Pick one:", 8)
    assert plain.finish_reason == "length"
    await fleet.wait_idle()
    assert (fleet.agents[0].pid, fleet.agents[0].exit_status) == (agent, None)
    assert fleet.gauges()["slots_total"] == SLOTS


async def test_paddlers_own_client_sees_what_became_of_its_grammar(fleet: RunningFleet) -> None:
    good = await fleet.ask(PROMPT, 20, gbnf('root ::= "ok"'))
    syntax = await fleet.ask(PROMPT, 20, schema("{"))
    initialization = await fleet.ask(PROMPT, 20, gbnf("root ::= foo"))
    kinds = [parse_inference_client_message(answer.lines[-1]).kind for answer in (good, syntax, initialization)]
    assert kinds == [
        InferenceMessageKind.DONE,
        InferenceMessageKind.GRAMMAR_SYNTAX_ERROR,
        InferenceMessageKind.GRAMMAR_INITIALIZATION_FAILED,
    ]


async def test_a_fulfilled_grammar_ends_the_answer_at_once(fleet: RunningFleet) -> None:
    """Case C05: one more token was asked for, and the process died of it."""
    with load_vocabulary(str(demo_model_path())) as lease:
        tokens = len(lease.vocabulary.tokenize("{}", add_special=False, parse_special=False))
    answer = await fleet.ask("Empty object:", 32, gbnf('root ::= "{" "}"'))
    assert (answer.text, answer.finish_reason) == ("{}", "stop")
    assert answer.done["matched_stop"] is None
    assert answer.usage["content_tokens"] == tokens


async def test_blanks_are_the_clients_own_choice_and_never_ours(fleet: RunningFleet) -> None:
    """Case C06: a weak model fills the answer with white space where the grammar lets it."""
    own = await fleet.ask("{", 64, gbnf('root ::= "{" ws "}"\nws ::= [ \\n\\t]*'))
    assert re.fullmatch(r"\{[ \n\t]*\}?", own.text)
    assert own.finish_reason == ("stop" if own.text.endswith("}") else "length")
    ours = await fleet.ask("Reply in JSON.", 64, schema({**SCHEMA, "maxProperties": 3}))
    assert not re.search(r"[ \n\r\t]{2}", ours.text)
    assert ours.finish_reason == "stop"
    assert fits_schema(ours.text)


async def test_characters_that_span_tokens_come_whole_or_not_at_all(fleet: RunningFleet) -> None:
    """Case C14."""
    whole = await fleet.ask("Emoji:", 16, gbnf('root ::= [🫠-🫨]{2} "end"'))
    assert re.fullmatch("[🫠-🫨]{2}end", whole.text)
    assert whole.finish_reason == "stop"
    cut = await fleet.ask("Emoji:", 2, gbnf("root ::= [🫠-🫨]{4}"))
    assert (cut.usage["content_tokens"], cut.finish_reason) == (2, "length")
    assert cut.text == ""


async def test_the_limit_cuts_a_constrained_answer_with_length(fleet: RunningFleet) -> None:
    sampled = await fleet.ask("Digits:", 5, {"type": "regex", "pattern": "[0-9]{90}"})
    assert (sampled.usage["content_tokens"], sampled.finish_reason) == (5, "length")
    assert re.fullmatch("[0-9]{1,89}", sampled.text)
    forced = await fleet.ask("Letters:", 5, gbnf('root ::= "once upon a time there was a king in a castle"'))
    assert (forced.usage["content_tokens"], forced.finish_reason) == (5, "length")
    assert "once upon a time there was a king".startswith(forced.text)


LATER_TOO_MUCH = "[0-9]{25}a{300000}"
"""Small for its digits, which is further than a compile looks; at the letters the lexer exceeds its bounds."""


async def test_what_fails_after_it_was_compiled_is_rejected_and_never_a_stop(fleet: RunningFleet) -> None:
    """After an error llguidance allows nothing but the end: half an answer would pass for a whole one. The form is
    broken for good, so the same text is compiled anew; neighbours do not notice."""
    agent = fleet.agents[0].pid
    broken: Grammar = {"type": "regex", "pattern": LATER_TOO_MUCH}
    ordinary: Grammar = {"type": "regex", "pattern": "[0-9]{12}[.]"}
    asked = [("Digits: ", 60, broken), (PROMPT, 8, None), ("Digits: ", 60, ordinary)]
    rejected, free, whole = await asyncio.gather(*(fleet.ask(*request) for request in asked))
    name, sentence = rejected.variant
    assert name == "GrammarRejectedModelOutput"
    assert "incomplete" in sentence
    assert re.fullmatch("[0-9]{1,25}", rejected.text)
    assert free.finish_reason in ("length", "stop")
    assert (whole.finish_reason, len(whole.text)) == ("stop", 13)
    cut = await fleet.ask("Digits: ", 5, broken)
    assert (cut.finish_reason, len(cut.text)) == ("length", 5)
    assert (fleet.agents[0].pid, fleet.agents[0].exit_status) == (agent, None)


async def test_a_client_that_leaves_takes_its_grammar_along(fleet: RunningFleet) -> None:
    endless = gbnf(LIST)
    async with fleet.client("A shopping list:\n", 1500, endless) as client:
        await client.read_head()
        await client.read_pieces(3)
    await fleet.wait_idle()
    again = await fleet.ask("A shopping list:\n", 12, endless)
    assert re.fullmatch(r"(- [a-z]+\n)*(-|- |- [a-z]+)?", again.text)


async def test_free_answers_beside_constrained_ones_are_those_they_have_alone(fleet: RunningFleet) -> None:
    """Eight clients on four slots, half of them constrained, one of each kind leaving early. Each free one counts in a
    hundred of its own; what shares a batch moves logits a little, so only the sure beginning is compared."""
    hundreds = {str(one): ", ".join(f"{one}0{last}" for last in range(1, 7)) + "," for one in range(1, 5)}
    alone = {name: await fleet.ask(prompt, 14) for name, prompt in hundreds.items()}

    async def leave_early(prompt: str, grammar: Grammar | None) -> None:
        async with fleet.client(prompt, 200, grammar) as client:
            await client.read_head()
            await client.read_pieces(1)

    asked: list[tuple[str | None, asyncio.Task[Generated]]] = []
    async with asyncio.TaskGroup() as clients:
        wanted = [*hundreds, *[None] * 4]
        for name in Random(5).sample(wanted, len(wanted)):
            prompt, grammar = (PROMPT, schema(SCHEMA)) if name is None else (hundreds[name], None)
            asked.append((name, clients.create_task(fleet.ask(prompt, 80 if name is None else 14, grammar))))
        clients.create_task(leave_early("A shopping list:\n", gbnf(LIST)))
        clients.create_task(leave_early(hundreds["1"], None))
    for name, task in asked:
        answer = task.result()
        if name is None:
            assert fits_schema(answer.text), answer.text
            assert answer.finish_reason == "stop"
        else:
            assert answer.text.startswith(f" {name}07, {name}08,")
            assert answer.text[:10] == alone[name].text[:10]
            assert {number[0] for number in re.findall(r"\d{3}", answer.text)} == {name}
    await fleet.wait_idle()
