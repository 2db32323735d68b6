"""The routes of the management service, for its OpenAPI document."""

from typing import Final

from balancer import openapi_fleet_answers as fleet
from balancer.openapi_document import Answer, Header, Model, Operation
from balancer.openapi_operations import HEALTH, READY, TEXT, document_with, in_events, in_json, refusals
from shared.desired_state import BalancerDesiredState

_STATE: Final = "/api/v1/balancer_desired_state"
_AGENT: Final = "/api/v1/agent/{agent_id}"
_TAG: Final = "a revision's ETag"


def _question(path: str, what: str, model: Model, *further: Answer) -> Operation:
    return Operation("get", path, what, (Answer(200, what, (in_json(model),)), *refusals((401,), *TEXT), *further))


def _snapshots(path: str, what: str, model: Model) -> Operation:
    found = Answer(200, "a snapshot at once, and after each change", (in_events(model),))
    return Operation("get", f"{path}/stream", f"{what}, as it changes", (found, *refusals((401, 503), *TEXT)))


def _with_stream(path: str, what: str, model: Model) -> tuple[Operation, Operation]:
    return _question(path, what, model), _snapshots(path, what, model)


MANAGEMENT: Final = (
    HEALTH,
    document_with(*TEXT),
    READY,
    Operation("get", "/metrics", "Prometheus' text form", (Answer(200, "gauges", TEXT),), is_open=True),
    Operation(
        "get",
        _STATE,
        "what the fleet should run",
        (
            Answer(200, "the stored document", (in_json(BalancerDesiredState),)),
            Answer(304, "it is the one that If-None-Match names"),
            *refusals((401, 503), *TEXT),
        ),
        headers=(Header("If-None-Match", _TAG),),
    ),
    Operation(
        "put",
        _STATE,
        "replace what the fleet should run",
        (Answer(204, "stored, not yet applied"), *refusals((400, 401, 408, 412, 413, 503), *TEXT)),
        body=BalancerDesiredState,
        headers=(Header("If-Match", _TAG),),
    ),
    _question("/api/v1/balancer_applicable_state", "what agents were told to apply", fleet.ApplicableState),
    *_with_stream("/api/v1/agents", "the agents, with Paddler's keys", fleet.PaddlerAgents),
    *_with_stream("/api/v1/fleet", "everything about the fleet", fleet.Fleet),
    *_with_stream("/api/v1/buffered_requests", "how many requests wait", fleet.BufferedRequests),
    _question(
        f"{_AGENT}/model_metadata", "metadata of an agent's model", fleet.MaybeModelMetadata, *refusals((404, 502, 504))
    ),
    _question(
        f"{_AGENT}/chat_template_override",
        "the template that an agent uses instead of its model's",
        fleet.MaybeTemplateOverride,
        *refusals((404, 502, 504)),
    ),
    _question("/api/v1/stories/{request_id}", "what is remembered of a request", fleet.Story, *refusals((404,))),
    Operation(
        "get",
        "/api/v1/agent_socket/{agent_id}",
        "the websocket of an agent",
        (Answer(101, "a websocket"), *refusals((400, 401), *TEXT)),
    ),
)
