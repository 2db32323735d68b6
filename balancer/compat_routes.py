"""The compatibility service's own questions: which models there are, and whether any slot serves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from balancer import fleet_view
from balancer.json_answers import json_answer
from balancer.management_services import FleetView
from balancer.served_models import model_ids_with_adapters
from shared.desired_state import BalancerDesiredState

MODELS_PATH: Final = "/v1/models"
READY_PATH: Final = "/ready"
_OWNER: Final = "steersman"


@dataclass(frozen=True, slots=True)
class CompatQuestions:
    """`wanted_state`: None until it is known."""

    fleet: Callable[[], FleetView]
    wanted_state: Callable[[], BalancerDesiredState | None]
    is_shutting_down: Callable[[], bool]

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get(MODELS_PATH, self.models, allow_head=False)
        app.router.add_get(READY_PATH, self.ready, allow_head=False)

    async def models(self, _: web.Request) -> web.Response:
        """OpenAI's list. Nobody here knows when a model was made, so `created` is 0."""
        names = model_ids_with_adapters(self.wanted_state())
        models = [{"id": name, "object": "model", "created": 0, "owned_by": _OWNER} for name in names]
        return json_answer({"object": "list", "data": models})

    async def ready(self, _: web.Request) -> web.Response:
        """As on the management service."""
        is_ready, document = fleet_view.readiness(
            self.fleet(), knows_state=self.wanted_state() is not None, is_shutting_down=self.is_shutting_down()
        )
        return json_answer(document, status=200 if is_ready else 503)
