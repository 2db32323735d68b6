"""Over all three routes of a real balancer: exactly one line at each request's end, whatever ends it, under the id of
the answer's `x-request-id`; the agent is told of the trace; each request is a span; and no text is in any of it."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from shared.desired_state import DEFAULT_DESIRED_STATE
from shared.failures import Failure, FailureKind
from shared.messages_from_agent import Refused
from shared.messages_to_agent import Generate
from shared.trace_context import read_traceparent
from tests.support.otel_collector import OtelCollector, attributes_of, otel_collector
from tests.support.raw_http import RawConnection
from tests.support.running_balancer import BalancerProcess
from tests.support.scripted_agent import ScriptedAgent, scripted_agent

SECRET = "xyzzy"
ANSWER = f"plugh {SECRET}"
RAW, COMPLETIONS, COMPLETE = "/api/v1/continue_from_raw_prompt", "/v1/completions", "/v1/complete"
ENDPOINTS = {RAW: "raw_prompt", COMPLETIONS: "completions", COMPLETE: "complete"}
TRACE_ID, CLIENT_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ROOM_SECONDS = 1.0
DEADLINE_SECONDS = 20.0
FLAGS = (
    *("--log-format", "json", "--log-level", "debug", "--completions-text-prompts", "--drain-timeout", "100ms"),
    *("--max-buffered-requests", "3", "--buffered-request-timeout", f"{ROOM_SECONDS}s"),
)


def body_for(path: str, wish: str, **changes: Any) -> dict[str, Any]:
    """`wish`: what the agent is to do, at the prompt's end."""
    prompt = f"{SECRET} {wish}"
    bodies: dict[str, dict[str, Any]] = {
        RAW: {"raw_prompt": prompt, "max_tokens": 8},
        COMPLETIONS: {"model": "tiny", "prompt": prompt, "stream": True},
        COMPLETE: {"model": "tiny", "prompt": prompt, "max_tokens_to_sample": 8},
    }
    return {**bodies[path], **changes}


async def play(agent: ScriptedAgent, work: Generate) -> None:
    """Does as the prompt wishes."""
    wish = (work.raw_prompt or "").rpartition(" ")[2]
    if wish == "refuse":
        sentence = f"the grammar says {SECRET}"
        await agent.say(
            Refused(member=work.member, attempt=work.attempt, kind=FailureKind.GRAMMAR_SYNTAX, message=sentence)
        )
        return
    await agent.accept(work)
    await agent.token(work, ANSWER)
    if wish == "fail":
        await agent.fail(work, Failure(FailureKind.ENGINE_FAILED, "the engine failed"))
    elif wish == "answer":
        await agent.token(work, "!")
        await agent.end(work)


@dataclass
class Fleet:
    """`told`: what each answer said: its id, and its status."""

    process: BalancerProcess
    told: dict[str, int] = field(default_factory=dict)

    def connect(self, path: str) -> Any:
        return RawConnection.to(self.process.inference_address if path == RAW else self.process.compat_address)

    async def ask(self, path: str, body: Any, **headers: str) -> str:
        """A whole answer; returns its id."""
        async with self.connect(path) as client:
            await client.post(path, body, **headers)
            answer = await client.read_answer()
        name: str = answer.head.headers["x-request-id"]
        assert name not in self.told
        self.told[name] = answer.status
        return name

    @asynccontextmanager
    async def begun(self, path: str) -> AsyncIterator[tuple[str, RawConnection]]:
        """A stream that goes on until the client leaves, or something happens to it."""
        async with self.connect(path) as client:
            stream = {} if path == RAW else {"stream": True}
            await client.post(path, body_for(path, "hang", **stream))
            head = await client.read_head()
            name: str = head.headers["x-request-id"]
            self.told[name] = head.status
            await client.read_chunk()
            yield name, client

    async def wait_buffered(self, count: int) -> None:
        async def buffered() -> int:
            async with RawConnection.to(self.process.management_address) as client:
                await client.request("GET", "/api/v1/buffered_requests")
                found: int = json.loads((await client.read_answer()).body)["buffered_requests_current"]
                return found

        async with asyncio.timeout(DEADLINE_SECONDS):
            while await buffered() < count:
                await asyncio.sleep(0.01)

    async def line(self, name: str) -> dict[str, Any]:
        """The one line about a request's end."""
        await self.process.wait_line(f'"request_id":"{name}","endpoint"')
        (found,) = [line for line in self.ended if line["request_id"] == name]
        return found

    @property
    def ended(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.process.lines]
        return [line for line in lines if line.get("event") == "request_ended"]


async def set_state(process: BalancerProcess) -> None:
    document = {**DEFAULT_DESIRED_STATE.document(), "model": {"LocalToAgent": "/models/tiny.gguf"}}
    async with RawConnection.to(process.management_address) as client:
        headers = {"Content-Type": "application/json"}
        await client.request("PUT", "/api/v1/balancer_desired_state", json.dumps(document).encode(), headers)
        assert (await client.read_answer()).status == 204


async def test_every_end_is_one_line_one_span_and_no_text() -> None:
    async with (
        otel_collector() as collector,
        BalancerProcess.started(*FLAGS, "--otel-endpoint", collector.url) as process,
    ):
        fleet = Fleet(process)
        await set_state(process)
        await nobody_serves(fleet)
        url = f"http://{process.management_address}"
        async with scripted_agent(url, slots=16, play=play) as agent:
            await answers(fleet, agent)
            await refusals_and_failures(fleet)
            await clients_that_leave(fleet)
            await an_agent_that_is_lost(fleet, agent)
        async with scripted_agent(url, "agent-2", slots=16, play=play):
            await the_drain(fleet)
        assert await process.wait_exit() == 0
        names = [line["request_id"] for line in fleet.ended]
        assert sorted(names) == sorted(fleet.told)
        assert SECRET not in process.log
        check_spans(fleet, collector)


async def nobody_serves(fleet: Fleet) -> None:
    """A room for three: who waits in it gets 504, who comes too gets 503."""
    async with asyncio.TaskGroup() as waiting:
        waiters = [waiting.create_task(fleet.ask(path, body_for(path, "answer"))) for path in ENDPOINTS]
        await fleet.wait_buffered(len(waiters))
        for path in ENDPOINTS:
            await refused(fleet, await fleet.ask(path, body_for(path, "answer")), path, "buffer_full", 503)
    for path, waiter in zip(ENDPOINTS, waiters, strict=True):
        line = await refused(fleet, waiter.result(), path, "waited_too_long", 504)
        assert line["queue_wait_seconds"] >= ROOM_SECONDS


async def refused(fleet: Fleet, name: str, path: str, failure: str, status: int) -> dict[str, Any]:
    line = await fleet.line(name)
    assert (line["outcome"], line["failure"], line["endpoint"]) == ("refused", failure, ENDPOINTS[path])
    assert line["status"] == (200 if path == RAW else status)  # the raw prompt route's stream has begun
    return line


async def answers(fleet: Fleet, agent: ScriptedAgent) -> None:
    traceparent = f"00-{TRACE_ID}-{CLIENT_SPAN}-01"
    for path, endpoint in ENDPOINTS.items():
        for changes in ({}, {"stream": path != COMPLETIONS}) if path != RAW else ({},):
            name = await fleet.ask(
                path, body_for(path, "answer", **changes), traceparent=traceparent, x_request_id="mine"
            )
            told = (await agent.wait_work()).traceparent
            line = await fleet.line(name)
            assert (line["outcome"], line["failure"], line["status"], line["endpoint"]) == (
                "answered",
                None,
                200,
                endpoint,
            )
            assert (line["agents"], line["finish_reasons"]) == (["scripted"], ["stop"])
            assert (line["prompt_tokens"], line["generated_tokens"]) == (5, 2)
            assert 0 <= line["queue_wait_seconds"] <= line["time_to_first_token_seconds"] <= line["duration_seconds"]
            assert (line["trace_id"], line["client_request_id"]) == (TRACE_ID, "mine")
            context = read_traceparent(told)
            assert context is not None
            assert (context.trace_id, context.parent_id) == (TRACE_ID, line["span_id"])
            assert agent.heard[-1].request_id == name  # type: ignore[union-attr]


async def refusals_and_failures(fleet: Fleet) -> None:
    for path in ENDPOINTS:
        wrong = [b"{", body_for(path, "answer", prompt=7, raw_prompt=7)]
        if path != RAW:
            wrong.append(body_for(path, "answer", model="another"))
        for body in wrong:
            line = await fleet.line(await fleet.ask(path, body))
            assert line["outcome"] == "refused"
            assert line["status"] in (400, 404, 422)
            assert line["agents"] == []
        line = await fleet.line(await fleet.ask(path, body_for(path, "refuse")))
        assert (line["outcome"], line["failure"], line["level"]) == ("refused", "grammar_syntax", "info")
        line = await fleet.line(await fleet.ask(path, body_for(path, "fail")))
        assert (line["outcome"], line["failure"], line["level"]) == ("failed", "engine_failed", "warning")
        assert line["generated_tokens"] == 1


async def clients_that_leave(fleet: Fleet) -> None:
    for path in ENDPOINTS:
        async with fleet.begun(path) as (name, _):
            pass
        line = await fleet.line(name)
        assert (line["outcome"], line["failure"], line["status"]) == ("cancelled", None, 200)
        assert line["generated_tokens"] == 1


async def an_agent_that_is_lost(fleet: Fleet, agent: ScriptedAgent) -> None:
    async with fleet.begun(RAW) as (first, _), fleet.begun(COMPLETIONS) as (second, _):
        agent.vanish()
        for name in (first, second):
            line = await fleet.line(name)
            assert (line["outcome"], line["failure"], line["status"]) == ("failed", "agent_lost", 200)


async def the_drain(fleet: Fleet) -> None:
    async with fleet.begun(RAW) as (first, _), fleet.begun(COMPLETIONS) as (second, _):
        fleet.process.send(signal.SIGTERM)
        for name in (first, second):
            line = await fleet.line(name)
            assert (line["outcome"], line["failure"]) == ("failed", "shutting_down")


def check_spans(fleet: Fleet, collector: OtelCollector) -> None:
    """One for each request; all have left before the process."""
    spans = {attributes_of(span)["gen_ai.response.id"]: span for span in collector.spans}
    assert len(spans) == len(collector.spans)
    assert set(spans) == set(fleet.told)
    for line in fleet.ended:
        span = spans[line["request_id"]]
        assert (span.trace_id.hex(), span.span_id.hex()) == (line["trace_id"], line["span_id"])
        assert span.parent_span_id.hex() == (CLIENT_SPAN if line["trace_id"] == TRACE_ID else "")
        told = attributes_of(span)
        assert told["steersman.outcome"] == line["outcome"]
        assert told.get("error.type") == line["failure"]
        assert told["gen_ai.usage.output_tokens"] == line["generated_tokens"]
    assert not [body for body in collector.bodies if SECRET.encode() in body]
