"""The `sampling` object of a native body."""

import json
from typing import Any

import pytest

from balancer.body_parsing import BodyRefused, parse_body
from balancer.generation_request import GenerationOptions, GenerationRequest
from balancer.native_dialect import RawPromptBody
from shared.generation_options import SamplingOptions, StopOptions


def parse(**sampling: Any) -> RawPromptBody:
    document = {"raw_prompt": "x", "max_tokens": 1, "sampling": sampling}
    return parse_body(json.dumps(document).encode(), RawPromptBody)


def request_of(body: RawPromptBody) -> GenerationRequest:
    found = body.to_generation_request("r", 77)
    assert isinstance(found, GenerationRequest), found
    return found


def test_without_it_nothing_is_asked_for() -> None:
    body = parse_body(b'{"raw_prompt":"x","max_tokens":1,"sampling":null}', RawPromptBody)
    request = request_of(body)
    assert (request.options, request.priority, request.members[0].seed) == (GenerationOptions(), 0, 77)


def test_seed_and_priority() -> None:
    request = request_of(parse(seed=-1, priority=-5))
    assert (request.members[0].seed, request.priority) == (2**64 - 1, -5)


def test_what_is_not_given_stays_as_the_desired_state_has_it() -> None:
    found = parse(temperature=0, logit_bias={"5": 1}, stop="###", stop_token_ids=[2], min_tokens=1, ignore_eos=True)
    options = request_of(found).options
    assert options.sampling == SamplingOptions(temperature=0.0, logit_bias={5: 1.0})
    assert options.stop == StopOptions(strings=["###"], token_ids=[2], min_tokens=1, ignores_end=True)


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ({"temperature": -1}, "sampling.temperature: must be at least 0"),
        ({"top_k": 0}, "sampling.top_k: must be -1 (off) or at least 1"),
        ({"max_tokens": 5}, 'sampling.max_tokens: is not a known field; put it beside "sampling", not into it'),
        ({"stop": [""]}, "sampling.stop.0: must not be empty"),
        ({"priority": 101}, "sampling.priority: must be at most 100"),
    ],
)
def test_what_is_out_of_range_is_named(sampling: dict[str, Any], words: str) -> None:
    with pytest.raises(BodyRefused) as caught:
        parse(**sampling)
    assert caught.value.sentence == words
