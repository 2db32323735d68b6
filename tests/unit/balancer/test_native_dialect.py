"""Bodies in, lines out, exactly as on Paddler's wire (seed 004 and its shapes)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paddler_client.inference_message import InferenceMessageKind, parse_inference_client_message

from balancer.body_parsing import BodyRefused, parse_body
from balancer.generation_request import GenerationRequest
from balancer.native_dialect import NativeLines, RawPromptBody
from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason, Usage
from shared.messages_to_agent import MAX_CONSTRAINT_BYTES, ConstraintText
from shared.prefix_hashes import prefix_hashes

ID = "V1StGXR8_Z5jdHi6B-myT"
TYPES = '"gbnf", "json_schema", "ebnf", "regex" or "structural_tag"'
LINES = NativeLines(ID, item_timeout_seconds=30.0)


def parse(**fields: Any) -> RawPromptBody:
    return parse_body(json.dumps({"raw_prompt": "2+2=", "max_tokens": 16, **fields}).encode(), RawPromptBody)


def group_of(**fields: Any) -> GenerationRequest:
    request = parse(**fields).to_generation_request(ID, seed=7)
    assert isinstance(request, GenerationRequest)
    return request


def token_variant(line: bytes) -> dict[str, Any]:
    assert line.endswith(b"\n")
    document = json.loads(line)
    assert document["Response"]["request_id"] == ID
    variant: dict[str, Any] = document["Response"]["response"]["GeneratedToken"]
    return variant


def test_the_seeds_bodies_are_taken() -> None:
    assert parse(raw_prompt="How can I make my cat happy?", max_tokens=400).max_tokens == 400
    assert parse(grammar=None).grammar is None
    gbnf = {"type": "gbnf", "grammar": 'root ::= [0-9] "-"', "root": "root"}
    assert parse(grammar=gbnf).grammar is not None
    assert parse(grammar={"type": "json_schema", "schema": '{"type":"object"}'}).grammar is not None


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"max_tokens": -1}, "max_tokens: must be at least 0"),
        ({"max_tokens": 2**31}, "max_tokens: must be at most 2147483647"),
        ({"max_tokens": 1.0}, "max_tokens: must be an integer"),
        ({"raw_prompt": None}, "raw_prompt: must be a string"),
        ({"grammar": "root ::= x"}, f"grammar: must be an object whose type is {TYPES}"),
        ({"grammar": {}}, f"grammar.type: is required; it must be {TYPES}"),
        ({"grammar": {"type": "jsonschema", "schema": {}}}, f"grammar.type: must be {TYPES}"),
        ({"grammar": {"type": []}}, f"grammar.type: must be {TYPES}"),
        ({"grammar": {"type": "regex", "regex": "x"}}, "grammar.pattern: is required"),
        ({"grammar": {"type": "ebnf", "grammar": "x", "root": "x"}}, "grammar.root: is not a known field"),
        ({"grammar": {"type": "structural_tag", "structural_tag": []}}, "grammar.structural_tag: must be a string or"),
        ({"grammar": {"type": "json_schema", "schema": True}}, "grammar.schema: must be a string or an"),
        ({"grammar": {"type": "gbnf", "grammar": "x"}}, "grammar.root: is required"),
        (
            {"grammar": {"type": "json_schema", "schema": 5}},
            "grammar.schema: must be a string or an",
        ),
        (
            {"grammar": {"type": "json_schema", "schema": "{}", "root": "x"}},
            "grammar.root: is not a known field",
        ),
    ],
)
def test_a_wrong_body_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BodyRefused) as caught:
        parse(**fields)
    assert caught.value.sentence.startswith(sentence)


def test_a_body_becomes_a_group_of_one() -> None:
    prompt = "é" * 40_000
    request = group_of(raw_prompt=prompt)
    assert request.constraint is None
    assert (request.request_id, request.raw_prompt, request.max_tokens) == (ID, prompt, 16)
    assert [(member.index, member.seed) for member in request.members] == [(0, 7)]
    # Only the part that is hashed is encoded, and that makes no difference.
    assert request.prefix_hashes == prefix_hashes(prompt.encode(), "text")


@pytest.mark.parametrize(
    ("grammar", "constraint"),
    [
        (
            {"type": "gbnf", "grammar": 'start ::= "a"', "root": "start"},
            ConstraintText(kind="gbnf", text='start ::= "a"', root="start"),
        ),
        ({"type": "ebnf", "grammar": 'root ::= "a"'}, ConstraintText(kind="ebnf", text='root ::= "a"')),
        ({"type": "regex", "pattern": "a+"}, ConstraintText(kind="regex", text="a+")),
        ({"type": "json_schema", "schema": "{}"}, ConstraintText(kind="json_schema", text="{}")),
        (
            {"type": "structural_tag", "structural_tag": '{"type": "x"}'},
            ConstraintText(kind="structural_tag", text='{"type": "x"}'),
        ),
    ],
)
def test_each_type_of_grammar_goes_to_the_agent_as_it_was_written(
    grammar: dict[str, Any], constraint: ConstraintText
) -> None:
    assert group_of(grammar=grammar).constraint == constraint


@pytest.mark.parametrize(("kind", "name"), [("json_schema", "schema"), ("structural_tag", "structural_tag")])
def test_an_object_goes_to_the_agent_as_the_very_text_of_the_body(kind: str, name: str) -> None:
    text = '{"const" : 123456789012345678901234567890, "x":[{"a":1.0, "a":1e2}], "y":"\\u00e9é}"}'
    body = f'{{"raw_prompt": "x", "grammar": {{"type": "{kind}", "{name}": {text}}}, "max_tokens": 1}}'
    request = parse_body(body.encode(), RawPromptBody).to_generation_request(ID, seed=7)
    assert isinstance(request, GenerationRequest)
    assert request.constraint == ConstraintText(kind=kind, text=text)


def test_a_schema_that_is_given_twice_is_refused() -> None:
    twice = b'{"raw_prompt": "x", "max_tokens": 1, "grammar": {"type": "json_schema", "schema": {}, "schema": {}}}'
    with pytest.raises(BodyRefused, match=r"grammar\.schema: is given twice"):
        parse_body(twice, RawPromptBody)


@pytest.mark.parametrize(
    ("grammar", "kind"),
    [
        ({"type": "regex", "pattern": "é" * (MAX_CONSTRAINT_BYTES // 2 + 1)}, FailureKind.GRAMMAR_INITIALIZATION),
        ({"type": "gbnf", "grammar": "", "root": "r" * 257}, FailureKind.GRAMMAR_INITIALIZATION),
        ({"type": "json_schema", "schema": "a" * (MAX_CONSTRAINT_BYTES + 1)}, FailureKind.GRAMMAR_SYNTAX),
        ({"type": "json_schema", "schema": {"title": "a" * MAX_CONSTRAINT_BYTES}}, FailureKind.GRAMMAR_SYNTAX),
    ],
)
def test_a_grammar_over_a_size_limit_is_refused_like_any_other_wrong_one(
    grammar: dict[str, Any], kind: FailureKind
) -> None:
    refused = parse(grammar=grammar).to_generation_request(ID, seed=7)
    assert isinstance(refused, Failure)
    assert (refused.kind, refused.parameter) == (kind, "grammar")


def test_a_grammar_of_the_largest_size_is_taken() -> None:
    grammar = {"type": "regex", "pattern": "é" * (MAX_CONSTRAINT_BYTES // 2)}
    assert group_of(grammar=grammar).constraint is not None


def test_a_token_is_one_line_with_the_name_of_its_agent() -> None:
    expected = {
        "Response": {
            "generated_by": "agent-a",
            "request_id": ID,
            "response": {"GeneratedToken": {"ContentToken": " hi"}},
        }
    }
    line = LINES.token("agent-a", Channel.CONTENT, " hi")
    assert line == json.dumps(expected, separators=(",", ":")).encode() + b"\n"


def test_an_agent_without_a_name_is_null_not_missing() -> None:
    assert json.loads(LINES.token(None, Channel.CONTENT, "x"))["Response"]["generated_by"] is None
    assert json.loads(LINES.token("None", Channel.CONTENT, "x"))["Response"]["generated_by"] == "None"


@pytest.mark.parametrize(
    ("channel", "variant"),
    [
        (Channel.CONTENT, "ContentToken"),
        (Channel.REASONING, "ReasoningToken"),
        (Channel.TOOL_CALL, "ToolCallToken"),
        (Channel.UNDETERMINABLE, "UndeterminableToken"),
    ],
)
def test_a_channel_is_a_variant(channel: Channel, variant: str) -> None:
    assert token_variant(LINES.token("a", channel, "x")) == {variant: "x"}


@given(text=st.text(), name=st.text())
def test_no_text_breaks_its_line_for_any_splitter(text: str, name: str) -> None:
    line = LINES.token(name, Channel.CONTENT, text)
    assert token_variant(line) == {"ContentToken": text}
    assert json.loads(line)["Response"]["generated_by"] == name
    assert len(line.decode().splitlines()) == 1  # this is how Paddler's Python client cuts the stream


def test_line_breaks_of_unicode_are_escaped_and_other_text_is_not() -> None:
    line = LINES.token("a", Channel.CONTENT, "é\u0085\u2028\u2029😀")
    assert "é\\u0085\\u2028\\u2029😀".encode() in line


def test_done_carries_the_eight_counters_and_why_it_ended() -> None:
    usage = Usage(prompt_tokens=21, cached_prompt_tokens=16, content_tokens=7)
    line = LINES.end("a", FinishReason.LENGTH, usage, None)
    assert token_variant(line) == {
        "Done": {
            "usage": {
                "prompt_tokens": 21,
                "cached_prompt_tokens": 16,
                "input_image_tokens": 0,
                "input_audio_tokens": 0,
                "content_tokens": 7,
                "reasoning_tokens": 0,
                "tool_call_tokens": 0,
                "undeterminable_tokens": 0,
            },
            "finish_reason": "length",
            "matched_stop": None,
        }
    }


def test_an_error_is_an_envelope_of_its_own() -> None:
    line = LINES.end("a", None, Usage(), Failure(FailureKind.BUFFER_FULL, "x"))
    error = {"code": 503, "description": "Buffered requests overflow"}
    assert json.loads(line) == {"Error": {"request_id": ID, "error": error}}


@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        (FailureKind.SAMPLER_FAILED, "SamplerError"),
        (FailureKind.GRAMMAR_SYNTAX, "GrammarSyntaxError"),
        (FailureKind.GRAMMAR_INITIALIZATION, "GrammarInitializationFailed"),
        (FailureKind.GRAMMAR_REJECTED_OUTPUT, "GrammarRejectedModelOutput"),
        (FailureKind.GRAMMAR_INCOMPATIBLE_WITH_THINKING, "GrammarIncompatibleWithThinking"),
    ],
)
def test_some_failures_are_variants_that_end_the_stream(kind: FailureKind, variant: str) -> None:
    line = LINES.end("a", None, Usage(), Failure(kind, "what happened"))
    expected = "what happened"
    if kind is FailureKind.GRAMMAR_INCOMPATIBLE_WITH_THINKING:  # Paddler's words
        expected = "Grammar constraints are incompatible with thinking mode"
    assert token_variant(line) == {variant: expected}


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        (FailureKind.GRAMMAR_SYNTAX, InferenceMessageKind.GRAMMAR_SYNTAX_ERROR),
        (FailureKind.GRAMMAR_INITIALIZATION, InferenceMessageKind.GRAMMAR_INITIALIZATION_FAILED),
        (FailureKind.GRAMMAR_REJECTED_OUTPUT, InferenceMessageKind.GRAMMAR_REJECTED_MODEL_OUTPUT),
        (FailureKind.GRAMMAR_INCOMPATIBLE_WITH_THINKING, InferenceMessageKind.GRAMMAR_INCOMPATIBLE_WITH_THINKING),
    ],
)
def test_paddlers_own_client_knows_what_became_of_a_grammar(kind: FailureKind, seen: InferenceMessageKind) -> None:
    message = parse_inference_client_message(LINES.failure("a", Failure(kind, "what happened")).decode())
    assert message.kind is seen
    assert message.is_terminal
    assert message.error_message


@pytest.mark.parametrize("reason", [None, FinishReason.CANCELLED])
def test_an_end_that_no_client_may_see_is_an_error(reason: FinishReason | None) -> None:
    assert json.loads(LINES.end("a", reason, Usage(), None))["Error"]["error"]["code"] == 502
