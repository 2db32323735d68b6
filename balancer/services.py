"""The three HTTP services of one balancer: which routes each has, and whom those ask."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from balancer.agent_socket import AgentSocket
from balancer.compat_relay import CompatRelay
from balancer.compat_routes import CompatQuestions
from balancer.complete_routes import CompleteRoutes
from balancer.completions_dialect import CompletionLimits
from balancer.completions_routes import CompletionsRoutes
from balancer.desired_state_watch import DesiredStateWatch
from balancer.entrance import AGENT_SOCKET_PREFIX, Entrance
from balancer.listeners import Listener, new_service
from balancer.lost_requests import INFERENCE_MAP, MANAGEMENT_MAP, answer_natively, answer_on_compat
from balancer.management_routes import add_management_routes
from balancer.management_services import ManagementServices
from balancer.metrics.exposition import Metrics
from balancer.native_routes import NativeRoutes
from balancer.openapi_management import MANAGEMENT
from balancer.openapi_operations import COMPAT, INFERENCE
from balancer.openapi_route import OpenApiRoute
from balancer.request_account import RequestBooks
from balancer.request_body import BodyLimits
from balancer.settings import BalancerSettings
from balancer.switchboard import Switchboard
from shared.desired_state import BalancerDesiredState

AGENT_SOCKET_PATH: Final = AGENT_SOCKET_PREFIX + "{agent_id}"


@dataclass(frozen=True, slots=True)
class ServiceParts:
    """What the services share. `books`: what requests are written into."""

    settings: BalancerSettings
    entrance: Entrance
    switchboard: Switchboard
    watch: DesiredStateWatch
    books: RequestBooks
    is_shutting_down: Callable[[], bool]

    @property
    def body_limits(self) -> BodyLimits:
        """Of every body."""
        return BodyLimits(max_bytes=self.settings.max_request_bytes)

    def wanted_state(self) -> BalancerDesiredState | None:
        """None until it is known."""
        current = self.watch.current
        return None if current is None else current.state

    def is_generation_disabled(self) -> bool:
        """By the state that is wanted, as in Paddler; agents may still be catching up."""
        wanted = self.wanted_state()
        return wanted is not None and wanted.inference_parameters.enable_embeddings


def inference_listener(parts: ServiceParts) -> Listener:
    """For clients that speak Paddler's wire."""
    settings = parts.settings
    app = new_service(
        settings.inference_cors_allowed_host,
        lost=partial(answer_natively, INFERENCE_MAP),
        refuse=parts.entrance.inference.refusal,
    )
    NativeRoutes(
        open_group=parts.switchboard.open_group,
        is_generation_disabled=parts.is_generation_disabled,
        body_limits=parts.body_limits,
        item_timeout_seconds=settings.inference_item_timeout_seconds,
        books=parts.books,
    ).add_to(app)
    OpenApiRoute("inference", INFERENCE).add_to(app)
    return Listener("inference", app, settings.inference_addr, parts.entrance.tls)


def compat_listener(parts: ServiceParts) -> Listener:
    """For clients of other systems."""
    settings = parts.settings
    app = new_service(settings.inference_cors_allowed_host, lost=answer_on_compat, refuse=parts.entrance.compat.refusal)
    relay = CompatRelay(parts.switchboard.open_group, settings.inference_item_timeout_seconds, books=parts.books)
    CompatQuestions(
        fleet=parts.switchboard.fleet, wanted_state=parts.wanted_state, is_shutting_down=parts.is_shutting_down
    ).add_to(app)
    CompleteRoutes(relay=relay, wanted_state=parts.wanted_state, body_limits=parts.body_limits).add_to(app)
    CompletionsRoutes(
        relay=relay,
        wanted_state=parts.wanted_state,
        body_limits=parts.body_limits,
        fleet=parts.switchboard.fleet,
        limits=CompletionLimits(
            max_choices=settings.max_choices_per_request, allows_text_prompts=settings.completions_text_prompts
        ),
    ).add_to(app)
    OpenApiRoute("compatibility", COMPAT).add_to(app)
    return Listener("compat", app, settings.compat_addr, parts.entrance.tls)


def management_listener(parts: ServiceParts, agent_socket: AgentSocket, metrics: Metrics) -> Listener:
    """For agents and operators."""
    settings = parts.settings
    app = new_service(
        settings.management_cors_allowed_host,
        lost=partial(answer_natively, MANAGEMENT_MAP),
        refuse=parts.entrance.management.refusal,
    )
    add_management_routes(
        app,
        ManagementServices(
            switchboard=parts.switchboard,
            watch=parts.watch,
            metrics=metrics,
            is_shutting_down=parts.is_shutting_down,
            body_limits=parts.body_limits,
        ),
    )
    app.router.add_get(AGENT_SOCKET_PATH, agent_socket.handle, allow_head=False)
    OpenApiRoute("management", MANAGEMENT).add_to(app)
    return Listener("management", app, settings.management_addr, parts.entrance.tls)
