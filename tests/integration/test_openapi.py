"""Each service's OpenAPI document: every route is in it, and every answer to made-up requests is as it says."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from schemathesis import Case
from schemathesis.core.failures import FailureGroup

from balancer import completions_routes, fleet_view, native_dialect
from balancer.complete_answers import CompleteAnswers
from balancer.completions_answers import CompletionAnswers
from balancer.listeners import Listener
from balancer.openapi_document import openapi_document
from balancer.openapi_management import MANAGEMENT
from balancer.openapi_operations import COMPAT, INFERENCE
from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason, Usage
from shared.logprobs import LogprobEntry, LogprobPlace, pack_places
from shared.messages_from_agent import MemberEnd, TokenFrame, TokenItem
from shared.messages_to_agent import Generate
from shared.settings_sources import Address
from tests.support.compat_service import MODEL, CompatService, compat_service
from tests.support.openapi_fuzzing import EXAMPLES, ask_each_once, check_items, hold_against_document, items_of
from tests.support.raw_http import RawConnection
from tests.support.running_balancer import running_balancer
from tests.support.scripted_agent import ScriptedAgent

Json = dict[str, Any]
PLACE = LogprobPlace(
    LogprobEntry(5, -0.5, b"a"), (LogprobEntry(5, -0.5, b"a"), LogprobEntry(6, -1.0)), (LogprobEntry(7, -2.0, b"\xff"),)
)
FIRST_PLACE = LogprobPlace(LogprobEntry(4, None, b"p"))
SERVICES: dict[str, Callable[[CompatService], Listener]] = {
    "inference": lambda service: service.balancer.inference,
    "compat": lambda service: service.balancer.compat,
    "management": lambda service: service.balancer.management,
}


async def play(agent: ScriptedAgent, work: Generate) -> None:
    """A short answer with all that was asked for; one in two constraints is refused."""
    if work.constraint is not None and work.member % 2:
        await agent.fail(work, Failure(FailureKind.GRAMMAR_SYNTAX, "the grammar cannot be read", "grammar"))
        return
    await agent.accept(work)
    member, attempt = work.member, work.attempt
    told = work.logprobs is not None
    items = [
        TokenItem(member, attempt, 0, (5, 6), "ab", Channel.CONTENT, pack_places([PLACE, PLACE]) if told else None)
    ]
    if work.logprobs is not None and work.logprobs.prompt_start >= 0:
        items.insert(0, TokenItem(member, attempt, 0, (), "", Channel.CONTENT, pack_places([FIRST_PLACE, PLACE])))
    reason, stop = (FinishReason.STOP, "ab") if member % 2 else (FinishReason.LENGTH, None)
    end = MemberEnd(member, attempt, reason, Usage(prompt_tokens=3, content_tokens=2), None, stop)
    await agent.say(TokenFrame(tuple(items), (end,)))


@asynccontextmanager
async def everything() -> AsyncIterator[CompatService]:
    async with compat_service(play, slots=64, max_choices_per_request=8, completions_text_prompts=True) as service:
        yield service


async def document_of(address: Address) -> Json:
    async with RawConnection.to(address) as client:
        await client.request("GET", "/openapi.json")
        answer = await client.read_answer()
    assert answer.status == 200
    found: Json = json.loads(answer.body)
    return found


def with_integers(value: Any) -> Any:
    """To a JSON schema 1.0 is an integer; here it is none."""
    if isinstance(value, dict):
        return {name: with_integers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [with_integers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


def fit(case: Case, number: int) -> None:
    """Two of three requests ask for what is there; at most one constraint, and no adapter."""
    if number % 3 == 0:
        return
    if "agent_id" in case.path_parameters:
        case.path_parameters["agent_id"] = "agent-1"
    case.body = with_integers(case.body)
    if not isinstance(case.body, dict):
        return
    if "model" in case.body and case.path.startswith("/v1"):
        case.body["model"] = MODEL
        if number % 2:
            case.headers.clear()
    kept = number % 5
    for index, name in enumerate(("ebnf", "regex", "json_schema", "structural_tag", "response_format")):
        if index != kept:
            case.body.pop(name, None)
    for name in ("lora_path", "best_of", "ignore_eos", "min_tokens", "logprob_start_len"):
        case.body.pop(name, None)
    if case.path == "/v1/completions":
        case.body["return_logprob"] = True
        case.body["n"] = 1 + number % 3
        case.body["stream"] = bool(number % 2)
        if not number % 2:
            case.body.pop("stream_options", None)


async def fuzz(service: CompatService, name: str) -> dict[str, Counter[int]]:
    (address,) = SERVICES[name](service).addresses
    document = await document_of(address)
    statuses = await asyncio.to_thread(hold_against_document, document, f"http://{address}", fit)
    # What takes neither parameters nor a body has only one request.
    assert all(found.total() == 1 or found.total() >= EXAMPLES for found in statuses.values()), statuses
    return statuses


async def test_made_up_requests_to_inference() -> None:
    async with everything() as service:
        statuses = await fuzz(service, "inference")
    (generated,) = [found for label, found in statuses.items() if label.startswith("POST")]
    assert generated[200] >= 50
    assert generated[400] >= 10


async def test_made_up_requests_to_compat() -> None:
    async with everything() as service:
        statuses = await fuzz(service, "compat")
    for label in ("POST /v1/completions", "POST /v1/complete"):
        assert statuses[label][200] >= 30, statuses
        assert statuses[label][404] >= 5
        assert statuses[label][400] >= 10


async def test_made_up_requests_to_management() -> None:
    async with everything() as service:
        statuses = await fuzz(service, "management")
    assert statuses["PUT /api/v1/balancer_desired_state"][204] >= 30, statuses
    assert statuses["GET /api/v1/agent/{agent_id}/model_metadata"][200] >= 30


@pytest.mark.parametrize(
    ("name", "path", "shaper", "function"),
    [
        ("inference", "/api/v1/continue_from_raw_prompt", native_dialect, "usage_counters"),
        ("compat", "/v1/completions", CompletionAnswers, "whole"),
        ("compat", "/v1/completions", completions_routes, "openai_error"),
        ("compat", "/v1/complete", CompleteAnswers, "_document"),
        ("management", "/api/v1/fleet", fleet_view, "_our_agent"),
        ("management", "/api/v1/agents", fleet_view, "_paddler_agent"),
    ],
)
async def test_an_extra_key_in_an_answer_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, path: str, shaper: Any, function: str
) -> None:
    plain = getattr(shaper, function)
    monkeypatch.setattr(shaper, function, lambda *given: {**plain(*given), "planted": 1})
    async with everything() as service:
        (address,) = SERVICES[name](service).addresses
        document = await document_of(address)
        document["paths"] = {path: document["paths"][path]}
        with pytest.raises((FailureGroup, AssertionError), match="planted"):
            await asyncio.to_thread(hold_against_document, document, f"http://{address}", fit)


async def test_an_extra_key_in_an_event_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = CompletionAnswers.usage
    monkeypatch.setattr(CompletionAnswers, "usage", lambda self: {**plain(self), "planted": 1})
    body = {"model": MODEL, "prompt": [5], "stream": True, "stream_options": {"include_usage": True}}
    async with everything() as service:
        document = await document_of(service.balancer.compat_address)
        answer = await service.ask("/v1/completions", body)
    content = document["paths"]["/v1/completions"]["post"]["responses"]["200"]["content"]["text/event-stream"]
    with pytest.raises(AssertionError, match="planted"):
        check_items(document, content["itemSchema"], items_of(answer.text, "text/event-stream"))


@pytest.mark.parametrize("path", ["agents", "fleet", "buffered_requests"])
async def test_snapshots_are_as_the_document_says(path: str) -> None:
    async with everything() as service:
        document = await document_of(service.balancer.management_address)
        async with RawConnection.to(service.balancer.management_address) as client:
            await client.request("GET", f"/api/v1/{path}/stream")
            assert (await client.read_head()).status == 200
            first = (await client.read_chunk()).decode()
    content = document["paths"][f"/api/v1/{path}/stream"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    check_items(document, content["itemSchema"], items_of(first, "text/event-stream"))


@pytest.mark.parametrize("name", SERVICES)
async def test_every_route_is_in_the_document_and_nothing_else(name: str) -> None:
    async with everything() as service:
        listener = SERVICES[name](service)
        (address,) = listener.addresses
        document = await document_of(address)
        routes = {
            (route.method.lower(), route.resource.canonical)
            for route in listener._runner.app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
    told = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert told == routes


async def test_only_what_says_so_is_open_and_refusals_are_as_the_document_says(tmp_path: Path) -> None:
    keys, token = tmp_path / "keys", tmp_path / "token"
    for path, text in ((keys, "somebody:secret\n"), (token, "secret\n")):
        path.write_text(text)
        path.chmod(0o600)
    async with running_balancer(inference_keys_file=keys, management_token_file=token) as balancer:
        for operations, address in (
            (INFERENCE, balancer.inference_address),
            (COMPAT, balancer.compat_address),
            (MANAGEMENT, balancer.management_address),
        ):
            document = openapi_document("", "1", operations)
            statuses = await asyncio.to_thread(ask_each_once, document, f"http://{address}")
            guarded = [f"{one.method.upper()} {one.path}" for one in operations if not one.is_open]
            socket = "GET /api/v1/agent_socket/{agent_id}"  # has a token of its own
            assert sorted(label for label, status in statuses.items() if status == 401) == sorted(
                label for label in guarded if label != socket
            )


@pytest.mark.parametrize("name", SERVICES)
async def test_every_object_of_an_answer_is_closed(name: str) -> None:
    async with everything() as service:
        document = await document_of(SERVICES[name](service).addresses[0])
    for title, schema in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        if "properties" in schema:
            assert schema["additionalProperties"] is False, title
