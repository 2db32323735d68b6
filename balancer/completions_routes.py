"""`POST /v1/completions`: read the body, turn it into a group, and let the relay answer."""

import hashlib
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from balancer.compat_admission import refuse_at_the_door
from balancer.compat_errors import CompatError, error_of_body, error_of_failure, openai_error
from balancer.compat_relay import Asked, CompatRelay, error_answer
from balancer.completions_answers import CompletionAnswers
from balancer.completions_body import CompletionBody
from balancer.completions_dialect import CompletionLimits, completion_of
from balancer.fleet_limits import fleet_limits
from balancer.management_services import FleetView
from balancer.request_account import RequestAccount
from balancer.request_body import BodyLimits, BodyRefused, read_body
from balancer.request_record import Endpoint
from balancer.served_models import choose_adapter
from shared.desired_state import BalancerDesiredState
from shared.failures import Failure, FailureKind
from shared.identifiers import new_identifier
from shared.log_fields import fields

COMPLETIONS_PATH: Final = "/v1/completions"

_log = logging.getLogger(__name__)


def in_openai_shape(error: CompatError) -> tuple[int, dict[str, Any]]:
    """Status and body of an error answer."""
    return error.status, openai_error(error)


@dataclass(frozen=True, slots=True)
class CompletionsRoutes:
    """`wanted_state`: None until it is known."""

    relay: CompatRelay
    wanted_state: Callable[[], BalancerDesiredState | None]
    body_limits: BodyLimits
    limits: CompletionLimits
    fleet: Callable[[], FleetView]
    _running: set[str] = field(default_factory=set)

    def add_to(self, app: web.Application) -> None:
        """Register the route."""
        app.router.add_post(COMPLETIONS_PATH, self.complete)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Cancelled when the client leaves."""
        request_id = f"cmpl-{new_identifier()}"
        with self.relay.books.open(Endpoint.COMPLETIONS, request_id, request) as account:
            return account.answered(await self._answered(request, account))

    async def _answered(self, request: web.Request, account: RequestAccount) -> web.StreamResponse:
        request_id = account.record.request_id
        try:
            body = await read_body(request, CompletionBody, self.body_limits, wrong_type_status=415)
        except BodyRefused as refused:
            return error_answer(error_of_body(refused), in_openai_shape, request_id)
        if body.user is not None:
            digest = hashlib.sha256(body.user.encode()).hexdigest()
            _log.info(
                "request %s has a user",
                body.rid or request_id,
                extra=fields(request_id=body.rid or request_id, user=digest),
            )
        account.record.is_stream = body.stream
        asked = self._asked(body, body.rid or request_id)
        if isinstance(asked, Failure):
            account.failed(asked.kind)
            error = error_of_failure(asked, self.relay.item_timeout_seconds)
            return error_answer(error, in_openai_shape, request_id)
        answer_id = asked.wanted.request_id
        account.named(answer_id)
        account.record.model = body.model
        self._running.add(answer_id)
        try:
            return await self.relay.answer(request, asked, account)
        finally:
            self._running.discard(answer_id)

    def _asked(self, body: CompletionBody, answer_id: str) -> Asked | Failure:
        failure = refuse_at_the_door(body.model, self.wanted_state())
        if failure is not None:
            return failure
        if answer_id in self._running:
            return Failure(FailureKind.INVALID_REQUEST, "rid: is the id of a request that runs now", "rid")
        chosen = choose_adapter(body.model, body.lora_path, self.wanted_state())
        if isinstance(chosen, Failure):
            return chosen
        body = body.model_copy(update={"lora_path": chosen.name})
        completion = completion_of(body, answer_id, secrets.randbits(64), self.limits, fleet_limits(self.fleet()))
        if isinstance(completion, Failure):
            return completion
        names = {"raw_prompt": "prompt"}
        if completion.constraint_field is not None:
            names["grammar"] = completion.constraint_field
        answers = CompletionAnswers(body, answer_id, int(time.time()))
        return Asked(completion.request, answers, in_openai_shape, body.stream, names, body.n)
