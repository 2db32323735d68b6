"""What both completion routes refuse before they look closer. Pure."""

from pydantic import BaseModel

from balancer.honoured_options import refuse_what_is_not_honoured
from balancer.http_failures import GENERATION_DISABLED_TEXT
from balancer.served_models import refuse_unknown_model
from shared.desired_state import BalancerDesiredState
from shared.failures import Failure, FailureKind


def refuse_at_the_door(body: BaseModel, model: str, state: BalancerDesiredState | None) -> Failure | None:
    """`model`: the body's; `state`: the wanted one, None until it is known."""
    given = {name: getattr(body, name) for name in body.model_fields_set}
    defaults = {name: one.default for name, one in type(body).model_fields.items()}
    failure = refuse_what_is_not_honoured(given, defaults) or refuse_unknown_model(model, state)
    if failure is None and state is not None and state.inference_parameters.enable_embeddings:
        return Failure(FailureKind.GENERATION_DISABLED, GENERATION_DISABLED_TEXT)
    return failure
