"""Bodies of the completion routes as their parsers read them."""

import json
from typing import Any

from balancer.body_parsing import BodyRefused, parse_body
from balancer.completions_body import CompletionBody
from balancer.completions_dialect import Completion, CompletionLimits, completion_of
from balancer.fleet_limits import FleetLimits
from balancer.response_stream import Ended, StreamEvent, Tokens
from shared.failures import Failure
from shared.generation import Channel, FinishReason, Usage
from shared.logprobs import LogprobPlace, pack_places
from shared.messages_from_agent import TokenItem

FLEET = FleetLimits(request_tokens=4096, vocabulary_size=262_144)
MINIMAL: dict[str, Any] = {"model": "m", "prompt": [5, 6, 7]}


def body(**fields: Any) -> CompletionBody:
    """A valid body with these fields. Raises BodyRefused."""
    return parse_body(json.dumps({**MINIMAL, **fields}).encode(), CompletionBody)


def sentence(**fields: Any) -> tuple[str, str | None]:
    """Why a body is refused, and the field that is blamed."""
    try:
        completion = completion_of(body(**fields), "r", 1, CompletionLimits(), FLEET)
    except BodyRefused as refused:
        return refused.sentence, refused.field
    assert isinstance(completion, Failure), completion
    return completion.message, completion.parameter


def completion(**fields: Any) -> Completion:
    """What a good body asks for; 77 is the random seed."""
    found = completion_of(body(**fields), "r", 77, CompletionLimits(allows_text_prompts=True), FLEET)
    assert isinstance(found, Completion), found
    return found


def tokens(text: str, *ids: int, places: tuple[LogprobPlace, ...] | None = None) -> StreamEvent:
    """Some tokens with their text; ids are only told apart from none."""
    packed = None if places is None else pack_places(places)
    return Tokens("agent", TokenItem(1, 1, 0, ids, text, Channel.CONTENT, packed))


def ended(
    reason: FinishReason = FinishReason.STOP, usage: Usage | None = None, matched_stop: str | int | None = None
) -> StreamEvent:
    """A good end."""
    return Ended("agent", reason, usage or Usage(), None, matched_stop)
