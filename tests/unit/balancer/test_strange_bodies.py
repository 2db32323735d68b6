"""Whatever a body of the completion routes holds, it becomes a request or a refusal with a sentence."""

import json
from typing import Any, TypeVar

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from balancer.body_parsing import BodyRefused, parse_body
from balancer.compat_errors import error_of_body, error_of_failure
from balancer.complete_dialect import CompleteBody
from balancer.completions_body import CompletionBody
from balancer.completions_dialect import CompletionLimits, completion_of
from balancer.generation_request import GenerationRequest
from balancer.native_dialect import RawPromptBody
from shared.failures import Failure
from tests.support.completion_bodies import FLEET, MINIMAL

Body = TypeVar("Body", bound=BaseModel)

numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=5)
keys = st.sampled_from(["type", "json_schema", "schema", "format", "include_usage", "5", "-1", "x", "user_id"])
values = st.recursive(
    scalars | st.sampled_from(["json_schema", "structural_tag", "text", "json_object"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


def bodies(names: list[str], minimal: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """A good body in which some fields are anything."""
    fields = st.dictionaries(st.sampled_from([*names, "nobody"]), values, max_size=3)
    return fields.map(lambda found: json.dumps({**minimal, **found}).encode())


def parsed(data: bytes, model: type[Body]) -> Body | BodyRefused:
    """The body, or why not."""
    try:
        return parse_body(data, model)
    except BodyRefused as refused:
        return refused


@given(bodies(list(CompletionBody.model_fields), MINIMAL))
def test_completions(data: bytes) -> None:
    body = parsed(data, CompletionBody)
    if isinstance(body, BodyRefused):
        assert error_of_body(body).message
        return
    found = completion_of(body, "r", 1, CompletionLimits(allows_text_prompts=True), FLEET)
    if isinstance(found, Failure):
        error = error_of_failure(found, 30.0)
        assert (error.status, bool(error.message), error.parameter in CompletionBody.model_fields) == (400, True, True)
    else:
        assert len(found.request.members) == len(body.prompt) * body.n


@given(bodies(list(CompleteBody.model_fields), {"model": "m", "prompt": "x", "max_tokens_to_sample": 1}))
def test_complete(data: bytes) -> None:
    body = parsed(data, CompleteBody)
    if isinstance(body, BodyRefused):
        assert error_of_body(body, is_mistyped_422=True).status in (400, 422)
    else:
        assert body.to_generation_request("r", 1).most_bytes >= len(body.prompt.encode())


@given(values)
def test_native_sampling(sampling: Any) -> None:
    body = parsed(json.dumps({"raw_prompt": "x", "max_tokens": 1, "sampling": sampling}).encode(), RawPromptBody)
    if isinstance(body, BodyRefused):
        assert body.sentence
    else:
        assert isinstance(body.to_generation_request("r", 1), GenerationRequest)
