"""What is refused at the door, and that nothing which agents do not honour gets past it."""

from typing import Any

import pytest

from balancer.compat_admission import refuse_at_the_door
from balancer.complete_dialect import CompleteBody
from balancer.completions_body import CompletionBody
from balancer.honoured_options import NOT_HONOURED_YET, refuse_what_is_not_honoured
from shared.desired_state import DEFAULT_DESIRED_STATE
from shared.failures import FailureKind
from tests.support.completion_bodies import body

STATE = DEFAULT_DESIRED_STATE.model_copy(update={"model": "None", "served_model_names": None})
DEFAULTS = {name: field.default for name, field in CompletionBody.model_fields.items()}


@pytest.mark.parametrize(
    ("given", "is_refused"),
    [
        ({"stop": []}, False),
        ({"stop": ["x"]}, True),
        ({"max_tokens": 5}, False),
    ],
)
def test_what_is_not_honoured_is_refused_by_name(given: dict[str, Any], is_refused: bool) -> None:
    failure = refuse_what_is_not_honoured(given, DEFAULTS, not_yet=frozenset({"stop"}))
    if is_refused:
        assert failure is not None
        (name,) = given
        assert (failure.kind, failure.parameter) == (FailureKind.INVALID_REQUEST, name)
        assert name in failure.message
    else:
        assert failure is None


def test_the_list_names_fields_that_there_are() -> None:
    assert {*CompletionBody.model_fields, *CompleteBody.model_fields} >= NOT_HONOURED_YET


def test_a_fleet_for_embeddings_says_so() -> None:
    parameters = STATE.inference_parameters.model_copy(update={"enable_embeddings": True})
    source = {"LocalToAgent": "/m/m.gguf"}
    embedding = (
        type(STATE)
        .model_validate({**STATE.document(), "model": source})
        .model_copy(update={"inference_parameters": parameters})
    )
    failure = refuse_at_the_door(body(), "m", embedding)
    assert failure is not None
    assert failure.kind is FailureKind.GENERATION_DISABLED
