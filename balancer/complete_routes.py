"""`POST /v1/complete`: read the body, turn it into a group, and let the relay answer in the caller's habits."""

import hashlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from balancer.compat_admission import refuse_at_the_door
from balancer.compat_errors import CompatError, error_of_body, error_of_failure
from balancer.compat_relay import Asked, CompatRelay, error_answer
from balancer.complete_answers import NEWEST, VERSIONS, CompleteAnswers, Habits, habits_of
from balancer.complete_dialect import CompleteBody
from balancer.request_account import RequestAccount
from balancer.request_body import BodyLimits, BodyRefused, read_body
from balancer.request_record import Endpoint
from balancer.served_models import choose_adapter
from shared.desired_state import BalancerDesiredState
from shared.failures import Failure
from shared.identifiers import new_identifier
from shared.log_fields import fields

COMPLETE_PATH: Final = "/v1/complete"
VERSION_HEADER: Final = "anthropic-version"

_FIELD_NAMES: Final = {"raw_prompt": "prompt", "max_tokens": "max_tokens_to_sample", "stop": "stop_sequences"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompleteRoutes:
    """`wanted_state`: None until it is known."""

    relay: CompatRelay
    wanted_state: Callable[[], BalancerDesiredState | None]
    body_limits: BodyLimits

    def add_to(self, app: web.Application) -> None:
        """Register the route."""
        app.router.add_post(COMPLETE_PATH, self.complete)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Cancelled when the client leaves."""
        answer_id = f"compl_{new_identifier()}"
        with self.relay.books.open(Endpoint.COMPLETE, answer_id, request) as account:
            return account.answered(await self._answered(request, account))

    async def _answered(self, request: web.Request, account: RequestAccount) -> web.StreamResponse:
        answer_id = account.record.request_id
        habits = habits_of(request.headers.get(VERSION_HEADER))
        if habits is None:
            error = CompatError(400, f"{VERSION_HEADER}: must be {' or '.join(VERSIONS)}")
            return error_answer(error, NEWEST.error, answer_id)
        try:
            body = await read_body(request, CompleteBody, self.body_limits, wrong_type_status=415)
        except BodyRefused as refused:
            error = error_of_body(refused, is_mistyped_422=habits.has_mistyped_422)
            return error_answer(error, habits.error, answer_id)
        if body.metadata is not None and body.metadata.user_id is not None:
            digest = hashlib.sha256(body.metadata.user_id.encode()).hexdigest()
            _log.info("request %s has a user", answer_id, extra=fields(request_id=answer_id, user=digest))
        account.record.is_stream = body.stream
        asked = self._asked(body, habits, answer_id)
        if isinstance(asked, Failure):
            account.failed(asked.kind)
            error = error_of_failure(asked, self.relay.item_timeout_seconds)
            return error_answer(error, habits.error, answer_id)
        account.record.model = body.model
        return await self.relay.answer(request, asked, account)

    def _asked(self, body: CompleteBody, habits: Habits, answer_id: str) -> Asked | Failure:
        failure = refuse_at_the_door(body.model, self.wanted_state())
        if failure is not None:
            return failure
        chosen = choose_adapter(body.model, None, self.wanted_state())
        if isinstance(chosen, Failure):
            return chosen
        wanted = body.to_generation_request(answer_id, secrets.randbits(64), chosen.name)
        answers = CompleteAnswers(habits, body.model, answer_id)
        return Asked(wanted, answers, habits.error, body.stream, _FIELD_NAMES)
