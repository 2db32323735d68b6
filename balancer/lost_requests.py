"""Requests for what a service does not have: 404 without a body, as on Paddler's wire, or 405 with `Allow` on the
compatibility service. A sentence says where to go instead: in the header `X-Steersman-Hint`, and in the body of a 405.

The sentence is made of our own routes only; nothing of what the client sent is in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs, web

from balancer.compat_errors import CompatError
from balancer.compat_refusal import in_shape_of_path
from balancer.openapi_document import Operation
from balancer.openapi_management import MANAGEMENT
from balancer.openapi_operations import COMPAT, INFERENCE

HINT_HEADER: Final = "X-Steersman-Hint"


@dataclass(frozen=True, slots=True)
class ServiceMap:
    """One service's routes, and where it listens in words. `main`: the paths to name to whoever has lost the way."""

    name: str
    where: str
    operations: Sequence[Operation]
    main: Sequence[str]

    def methods_of(self, path: str) -> list[str]:
        """Empty where it serves no such path."""
        return [one.method.upper() for one in self.operations if _is_of(path, one.path)]

    @property
    def summary(self) -> str:
        """Its main routes; the rest is in its document."""
        routes = ", ".join(f"{'/'.join(self.methods_of(path))} {path}" for path in self.main)
        return f"the {self.name} service answers {routes}; GET /openapi.json lists all"


INFERENCE_MAP: Final = ServiceMap(
    "inference", "--inference-addr, usually port 8061", INFERENCE, ("/api/v1/continue_from_raw_prompt",)
)
COMPAT_MAP: Final = ServiceMap(
    "compatibility", "--compat-addr, usually port 8070", COMPAT, ("/v1/completions", "/v1/complete", "/v1/models")
)
MANAGEMENT_MAP: Final = ServiceMap(
    "management",
    "--management-addr, usually port 8060",
    MANAGEMENT,
    ("/api/v1/agents", "/api/v1/fleet", "/api/v1/balancer_desired_state", "/metrics", "/ready"),
)
_MAPS: Final = (INFERENCE_MAP, COMPAT_MAP, MANAGEMENT_MAP)

# What other systems serve, and Paddler, and Steersman does not.
_NOT_SERVED: Final = {
    "/v1/chat/completions": "chat",
    "/api/v1/continue_from_conversation_history": "chat",
    "/v1/messages": "chat",
    "/v1/responses": "responses API",
    "/v1/embeddings": "embeddings",
    "/api/v1/generate_embedding_batch": "embeddings",
    "/api/v1/inference_socket": "websocket for clients",
}


def sentence_for(path: str, here: ServiceMap) -> str:
    """Where to go from a request that nothing here answers; a sentence of ASCII, one line."""
    methods = here.methods_of(path)
    if methods:
        return f"this path answers only {' and '.join(methods)}"
    if path in _NOT_SERVED:
        return f"Steersman has no {_NOT_SERVED[path]}; {here.summary}"
    for one in _MAPS:
        if one is not here and one.methods_of(path):
            return f"this path is on the {one.name} service ({one.where}); {here.summary}"
    if path.endswith("/") and here.methods_of(path.rstrip("/")):
        return "this path has no slash at its end"
    return here.summary


def answer_natively(here: ServiceMap, request: web.Request, _: web.HTTPException) -> web.Response:
    """404 for a wrong method too."""
    return web.Response(status=404, headers={HINT_HEADER: sentence_for(request.path, here)})


def answer_on_compat(request: web.Request, refused: web.HTTPException) -> web.Response:
    """405 for a wrong method, with an error of the path's own shape."""
    if not isinstance(refused, web.HTTPMethodNotAllowed):
        return answer_natively(COMPAT_MAP, request, refused)
    sentence = sentence_for(request.path, COMPAT_MAP)
    answer = in_shape_of_path(request, CompatError(405, sentence, None, "method_not_allowed"))
    answer.headers[hdrs.ALLOW] = refused.headers[hdrs.ALLOW]
    answer.headers[HINT_HEADER] = sentence
    return answer


def _is_of(path: str, template: str) -> bool:
    """Whether a path is one of a template such as `/api/v1/agent/{agent_id}/model_metadata`."""
    parts, wanted = path.split("/"), template.split("/")
    return len(parts) == len(wanted) and all(
        bool(part) if one.startswith("{") else part == one for part, one in zip(parts, wanted, strict=True)
    )
