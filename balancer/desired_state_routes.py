"""The desired state over HTTP: GET with an ETag, PUT as a full replacement, and what agents were told to apply."""

import asyncio
import logging
from typing import Any, Final

from aiohttp import web
from pydantic import RootModel, ValidationError

from balancer.desired_state_store import RevisionConflict, StoreUnavailable
from balancer.json_answers import json_answer
from balancer.management_services import ManagementServices
from balancer.request_body import BodyRefused, read_body
from balancer.validation_sentences import fault_sentences
from shared.chat_template_check import compile_fault
from shared.desired_state import BalancerDesiredState

DESIRED_STATE_PATH: Final = "/api/v1/balancer_desired_state"
APPLICABLE_STATE_PATH: Final = "/api/v1/balancer_applicable_state"
# RFC 9111 has given `Warning` up, but its code 110 still is the one word that says this.
_STALE: Final = '110 - "Response is Stale"'

log = logging.getLogger(__name__)


class _JsonObject(RootModel[dict[str, Any]]):
    """Any object: its faults are told here, all of them and not only the first."""


class DesiredStateRoutes:
    """Conditions are RFC 9110, 13.1: `If-Match` on PUT (412), `If-None-Match` on GET (304)."""

    def __init__(self, services: ManagementServices) -> None:
        self._services = services
        self._one_template = asyncio.Lock()

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get(DESIRED_STATE_PATH, self.get_desired_state, allow_head=False)
        app.router.add_put(DESIRED_STATE_PATH, self.put_desired_state)
        app.router.add_get(APPLICABLE_STATE_PATH, self.get_applicable_state, allow_head=False)

    async def get_desired_state(self, request: web.Request) -> web.Response:
        """What is stored; while the store is away, what is served by, marked as stale."""
        try:
            reading = await self._services.watch.read()
        except StoreUnavailable as problem:
            log.warning("GET of the desired state: %s", problem)
            return _store_is_away(problem.for_clients)
        headers = {"ETag": entity_tag(reading.stored.revision)}
        if reading.is_stale:
            headers["Warning"] = _STALE
        unless = request.headers.getall("If-None-Match", [])
        if unless and names(unless, reading.stored.revision, weakly=True):
            return web.Response(status=304, headers=headers)
        return json_answer(reading.stored.state.document(), headers)

    async def put_desired_state(self, request: web.Request) -> web.Response:
        """204 once stored, not once applied."""
        try:
            body = await read_body(request, _JsonObject, self._services.body_limits)
            state = BalancerDesiredState.model_validate(body.root)
        except BodyRefused as refused:
            return web.Response(status=refused.status, text=refused.sentence)
        except ValidationError as error:
            return web.Response(status=400, text="\n".join(fault_sentences(error, BalancerDesiredState)))
        fault = await self._template_fault(state)
        if fault is not None:
            return web.Response(status=400, text=f"chat_template_override.content: does not compile: {fault}")
        try:
            revision = await self._replace(state, request.headers.getall("If-Match", []))
        except RevisionConflict as conflict:
            return web.Response(status=412, text=str(conflict), headers={"ETag": entity_tag(conflict.current_revision)})
        except StoreUnavailable as problem:
            log.warning("PUT of the desired state: %s", problem)
            return _store_is_away(f"{problem.for_clients}; nothing was changed")
        log.info("the desired state is at revision %d, by a PUT from %s", revision, request.remote)
        return web.Response(status=204, headers={"ETag": entity_tag(revision)})

    async def get_applicable_state(self, _: web.Request) -> web.Response:
        """What agents apply; null until the desired state is known."""
        state = self._services.switchboard.fleet().applicable_state
        return json_answer(None if state is None else state.document())

    async def _template_fault(self, state: BalancerDesiredState) -> str | None:
        """In a thread, and one template at a time: the longest keep a core busy for seconds."""
        if state.chat_template_override is None:
            return None
        async with self._one_template:
            return await asyncio.to_thread(compile_fault, state.chat_template_override.content)

    async def _replace(self, state: BalancerDesiredState, required: list[str]) -> int:
        """The new revision. Raises RevisionConflict and StoreUnavailable."""
        watch = self._services.watch
        expected: int | None = None
        if required and not names_any(required):
            reading = await watch.read()
            expected = reading.stored.revision
            if not names(required, expected, weakly=False):
                raise RevisionConflict(expected)
        return (await watch.replace(state, expected)).revision


def entity_tag(revision: int) -> str:
    """A strong tag: the same revision is the same document."""
    return f'"{revision}"'


def names(conditions: list[str], revision: int, *, weakly: bool) -> bool:
    """Whether the lists of entity tags in some header lines name `revision`. `*` names every one."""
    for tag in ",".join(conditions).split(","):
        tag = tag.strip()
        if weakly:
            tag = tag.removeprefix("W/")
        if tag in ("*", entity_tag(revision)):
            return True
    return False


def names_any(conditions: list[str]) -> bool:
    """Whether it is `*`: some state must exist, and one always does."""
    return any(tag.strip() == "*" for tag in ",".join(conditions).split(","))


def _store_is_away(text: str) -> web.Response:
    return web.Response(status=503, text=text, headers={"Retry-After": "5"})
