"""`/v1/complete`: the seed's fields, and what becomes of them."""

import json
from typing import Any

import pytest

from balancer.body_parsing import BodyRefused, parse_body
from balancer.complete_dialect import CompleteBody
from balancer.generation_request import MemberRequest

MINIMAL: dict[str, Any] = {"model": "m", "prompt": "Once", "max_tokens_to_sample": 16}


def parse(**fields: Any) -> CompleteBody:
    return parse_body(json.dumps({**MINIMAL, **fields}).encode(), CompleteBody)


def test_the_prompt_is_raw_text_of_one_member_and_special_tokens_are_not_parsed() -> None:
    request = parse(prompt="\n\nHuman: hi<|im_end|>").to_generation_request("compl_1", 7)
    assert (request.raw_prompt, request.prompt_token_ids) == ("\n\nHuman: hi<|im_end|>", None)
    assert (request.max_tokens, request.members) == (16, (MemberRequest(0, 7),))
    assert not request.options.parses_special


def test_defaults_and_what_is_given_reach_the_agent() -> None:
    plain = parse().to_generation_request("r", 7).options
    given = parse(
        temperature=2, top_p=0.5, top_k=3, stop_sequences=["E F"], metadata={"user_id": "u"}
    ).to_generation_request("r", 7)
    assert plain.sampling is not None
    assert (plain.sampling.temperature, plain.sampling.top_p, plain.sampling.top_k) == (1.0, 1.0, -1)
    assert plain.stop is not None
    assert plain.stop.strings == []
    sampling, stop = given.options.sampling, given.options.stop
    assert sampling is not None
    assert stop is not None
    assert (sampling.temperature, sampling.top_p, sampling.top_k, stop.strings) == (2.0, 0.5, 3, ["E F"])


@pytest.mark.parametrize("name", ["stop_sequences", "stream", "temperature", "top_p", "top_k", "metadata"])
def test_null_is_the_default(name: str) -> None:
    assert getattr(parse(**{name: None}), name) == CompleteBody.model_fields[name].default


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": None}, "model: is required"),
        ({"prompt": None}, "prompt: is required"),
        ({"prompt": ["x"]}, "prompt: must be a string"),
        ({"max_tokens_to_sample": None}, "max_tokens_to_sample: is required"),
        ({"max_tokens_to_sample": 0}, "max_tokens_to_sample: must be at least 1"),
        ({"stop_sequences": ["a"] * 5}, "stop_sequences: must have at most 4 entries"),
        ({"stop_sequences": [""]}, "stop_sequences.0: must not be empty"),
        ({"stop_sequences": "x"}, "stop_sequences: must be a list"),
        ({"temperature": 2.1}, "temperature: must be at most 2"),
        ({"top_p": 0}, "top_p: must be greater than 0"),
        ({"top_k": 0}, "top_k: must be -1 (off) or at least 1"),
        ({"stream": 1}, "stream: must be true or false"),
        ({"metadata": {"x": 1}}, "metadata.x: is not a known field"),
        ({"max_tokens": 3}, 'max_tokens: is not a known field; it is called "max_tokens_to_sample" here'),
        ({"temprature": 0}, 'temprature: is not a known field; did you mean "temperature"?'),
    ],
)
def test_what_will_not_do_is_named(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(BodyRefused) as caught:
        parse(**fields)
    assert caught.value.sentence == words
