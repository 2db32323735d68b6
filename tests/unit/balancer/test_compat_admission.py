"""What is refused at the door."""

from balancer.compat_admission import refuse_at_the_door
from shared.desired_state import DEFAULT_DESIRED_STATE
from shared.failures import FailureKind

STATE = DEFAULT_DESIRED_STATE.model_copy(update={"model": "None", "served_model_names": None})


def test_a_fleet_for_embeddings_says_so() -> None:
    parameters = STATE.inference_parameters.model_copy(update={"enable_embeddings": True})
    source = {"LocalToAgent": "/m/m.gguf"}
    embedding = (
        type(STATE)
        .model_validate({**STATE.document(), "model": source})
        .model_copy(update={"inference_parameters": parameters})
    )
    failure = refuse_at_the_door("m", embedding)
    assert failure is not None
    assert failure.kind is FailureKind.GENERATION_DISABLED
