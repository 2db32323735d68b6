"""What both completion routes refuse before they look closer. Pure."""

from balancer.http_failures import GENERATION_DISABLED_TEXT
from balancer.served_models import refuse_unknown_model
from shared.desired_state import BalancerDesiredState
from shared.failures import Failure, FailureKind


def refuse_at_the_door(model: str, state: BalancerDesiredState | None) -> Failure | None:
    """`model`: the body's; `state`: the wanted one, None until it is known."""
    failure = refuse_unknown_model(model, state)
    if failure is None and state is not None and state.inference_parameters.enable_embeddings:
        return Failure(FailureKind.GENERATION_DISABLED, GENERATION_DISABLED_TEXT)
    return failure
