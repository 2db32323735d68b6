"""An unknown field: a word of another API, a field of another object, a slip of the pen, or anybody's guess."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from balancer import foreign_words
from balancer.body_parsing import BodyRefused, parse_body
from balancer.complete_dialect import CompleteBody
from balancer.completions_body import CompletionBody
from balancer.field_hints import field_hint
from balancer.native_dialect import RawPromptBody
from balancer.validation_sentences import fault_sentences
from shared.desired_state import DEFAULT_DESIRED_STATE, BalancerDesiredState

RAW: dict[str, Any] = {"raw_prompt": "x", "max_tokens": 1}
COMPLETION: dict[str, Any] = {"model": "x", "prompt": [1]}
COMPLETE: dict[str, Any] = {"model": "x", "prompt": "x", "max_tokens_to_sample": 1}
STATE = DEFAULT_DESIRED_STATE.document()


def hint(model: type[BaseModel], document: dict[str, Any]) -> str | None:
    """Of the first fault that is an unknown field, at the place where pydantic says it is."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(document)
    places = [fault["loc"] for fault in caught.value.errors() if fault["type"] == "extra_forbidden"]
    return field_hint(model, places[0])


@pytest.mark.parametrize(
    ("model", "document", "words"),
    [
        (RawPromptBody, {**RAW, "temperature": 1}, 'put it into "sampling"'),
        (RawPromptBody, {**RAW, "prompt": "x"}, 'it is called "raw_prompt" here'),
        (RawPromptBody, {**RAW, "max_completion_tokens": 1}, 'it is called "max_tokens" here'),
        (RawPromptBody, {**RAW, "gramar": {}}, 'did you mean "grammar"?'),
        (RawPromptBody, {**RAW, "sampling": {"max_tokens": 1}}, 'put it beside "sampling", not into it'),
        (RawPromptBody, {**RAW, "sampling": {"temprature": 1}}, 'did you mean "temperature"?'),
        (RawPromptBody, {**RAW, "grammar": {"type": "json_schema", "schema": "{}", "shema": 1}}, "schema"),
        (RawPromptBody, {**RAW, "schema": {}}, 'put it into "grammar"'),
        (RawPromptBody, {**RAW, "regex": "a"}, '{"grammar": {"type": "regex", ...}}'),
        (CompletionBody, {**COMPLETION, "max_completion_tokens": 1}, 'it is called "max_tokens" here'),
        (CompletionBody, {**COMPLETION, "include_usage": True}, 'put it into "stream_options"'),
        (CompletionBody, {**COMPLETION, "stop_token_id": [1]}, 'did you mean "stop_token_ids"?'),
        (CompletionBody, {**COMPLETION, "stream_options": {"n": 1}}, 'put it beside "stream_options"'),
        (CompleteBody, {**COMPLETE, "max_tokens": 1}, 'it is called "max_tokens_to_sample" here'),
        (CompleteBody, {**COMPLETE, "user_id": "x"}, 'put it into "metadata"'),
        (BalancerDesiredState, {**STATE, "modle": "None"}, 'did you mean "model"?'),
        (BalancerDesiredState, {**STATE, "n_batch": 1}, 'put it into "inference_parameters"'),
        (BalancerDesiredState, {**STATE, "model": {"Url": {"url": "x", "urll": 1}}}, 'did you mean "url"?'),
    ],
)
def test_what_is_meant_can_be_guessed(model: type[BaseModel], document: dict[str, Any], words: str) -> None:
    assert words in str(hint(model, document))


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (RawPromptBody, {**RAW, "nonsense": 1}),
        (RawPromptBody, {**RAW, "raw_prompt" * 1000: 1}),
        (RawPromptBody, {**RAW, "": 1}),
        (RawPromptBody, {**RAW, "grammar": {"type": "ebnf", "grammar": "x", "root": "x"}}),
        (BalancerDesiredState, {**STATE, "wrong": 1}),
    ],
)
def test_what_cannot_be_guessed_is_not(model: type[BaseModel], document: dict[str, Any]) -> None:
    assert hint(model, document) is None


@pytest.mark.parametrize(
    ("model", "document", "sentence"),
    [
        (
            RawPromptBody,
            {"prompt": "x", "max_tokens": 4},
            'prompt: is not a known field; it is called "raw_prompt" here',
        ),
        (
            RawPromptBody,
            {"raw_promt": "x", "max_tokens": 4},
            'raw_promt: is not a known field; did you mean "raw_prompt"?',
        ),
        (RawPromptBody, {"raw_prompt": "x", "n": 1, "n_predict": 4}, "n_predict: is not a known field; it is called"),
        (RawPromptBody, {"max_tokens": 4, "messages": []}, "messages: is not a known field; there is no chat here"),
        (
            CompleteBody,
            {"model": "x", "prompt": "x", "max_tokens": 4},
            "max_tokens: is not a known field; it is called",
        ),
        (
            CompletionBody,
            {"model": "x", "input_ids": [1]},
            'input_ids: is not a known field; it is called "prompt" here',
        ),
        # What explains nothing that is missing stays where it was.
        (RawPromptBody, {"temperature": 1, "max_tokens": 4}, "raw_prompt: is required"),
        (RawPromptBody, {**{f"x{n}": 1 for n in range(5000)}, "prompt": "x"}, "raw_prompt: is required"),
    ],
)
def test_what_explains_a_missing_field_is_said_first(
    model: type[BaseModel], document: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(document)
    assert fault_sentences(caught.value, model)[0].startswith(sentence)


def test_its_status_and_field_are_still_those_of_the_missing_one() -> None:
    with pytest.raises(BodyRefused) as caught:
        parse_body(json.dumps({"model": "x", "prompt": "x", "max_tokens": 4}).encode(), CompleteBody)
    refused = caught.value
    assert refused.sentence.startswith("max_tokens: is not a known field")
    assert (refused.field, refused.fault) == ("max_tokens_to_sample", "missing")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (RawPromptBody, foreign_words.RAW_PROMPT),
        (CompletionBody, foreign_words.COMPLETIONS),
        (CompleteBody, foreign_words.COMPLETE),
    ],
)
def test_foreign_words_are_foreign_and_lead_to_fields_that_are_there(model: type[BaseModel], words: Any) -> None:
    assert not set(words) & set(model.model_fields)
    for word in words.values():
        called = word.partition('it is called "')[2].partition('"')[0]
        assert called in {"", "stop", *model.model_fields}, word
