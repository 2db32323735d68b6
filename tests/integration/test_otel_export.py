"""Spans reach a real collector with the ids of their records; one that is away costs spans and a line, nothing else."""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from balancer import otel_export
from balancer.otel_endpoint import check_otel_endpoint
from balancer.otel_export import Exported, NoOtelPackages, SpanExport
from balancer.request_record import Outcome
from shared.failures import FailureKind
from shared.trace_context import TraceContext
from tests.support.conditions import wait_until
from tests.support.otel_collector import attributes_of, otel_collector
from tests.support.request_records import TRACE, answered, refused

AT_ONCE_SECONDS = 0.02


@asynccontextmanager
async def exporting(url: str, now: float = 200.0) -> AsyncIterator[SpanExport]:
    endpoint = check_otel_endpoint(url)
    assert endpoint is not None
    export = await SpanExport.open(Exported(endpoint, "balancer-1", "1.2.3", lambda: now, AT_ONCE_SECONDS))
    try:
        yield export
    finally:
        await export.aclose()


async def test_a_span_has_the_ids_and_times_of_its_record() -> None:
    async with otel_collector() as collector:
        before = time.time_ns()
        async with exporting(collector.url) as export:
            export.ended(answered())
        (span,) = collector.spans
    assert (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()) == (
        TRACE.trace_id,
        TRACE.span_id,
        TRACE.parent_id,
    )
    assert span.name == "text_completion tiny"
    assert span.kind == 2  # of a server
    assert span.end_time_unix_nano - span.start_time_unix_nano == 1_000_000_000
    # The record ended 99 seconds ago by its clock.
    assert before - 99.5e9 < span.end_time_unix_nano < time.time_ns() - 98.5e9
    told = attributes_of(span)
    assert told["gen_ai.usage.output_tokens"] == 20
    assert told["gen_ai.response.finish_reasons"] == ["length"]
    (first,) = [one for one in span.events if one.name == "steersman.first_token"]
    assert first.time_unix_nano - span.start_time_unix_nano == 250_000_000
    assert span.status.code == 0
    assert collector.resource["service.name"] == "steersman-balancer"
    assert collector.resource["service.version"] == "1.2.3"
    assert collector.resource["service.instance.id"] == "balancer-1"


async def test_traces_that_begin_here_errors_and_what_nobody_samples() -> None:
    begun = TraceContext("1" * 32, None, True, "2" * 16)
    silent = TraceContext("3" * 32, "4" * 16, False, "5" * 16)
    async with otel_collector() as collector:
        async with exporting(collector.url) as export:
            export.ended(answered(trace=begun))
            export.ended(answered(trace=silent))
            export.ended(answered(trace=TRACE, outcome=Outcome.FAILED, failure=FailureKind.AGENT_LOST))
            export.ended(refused(trace=None))
        first, second = collector.spans
    assert (first.trace_id.hex(), first.span_id.hex(), first.parent_span_id) == ("1" * 32, "2" * 16, b"")
    assert (second.status.code, second.status.message) == (2, "agent_lost")


async def test_a_collector_that_refuses_is_told_of_once_and_costs_no_wait(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with otel_collector() as collector:
        collector.answer_status = 400
        async with exporting(collector.url) as export:
            for count in (1, 2, 3):
                began = time.perf_counter()
                export.ended(answered())
                assert time.perf_counter() - began < 0.5
                await collector.wait_posts(count)
            collector.answer_status = 200
            export.ended(answered())
            await collector.wait_spans(1)
            await wait_until(lambda: "are exported to" in caplog.text)
    failures = [one for one in caplog.records if one.levelname in ("WARNING", "ERROR", "CRITICAL")]
    assert len(failures) == 1
    assert "spans cannot be exported to http://127.0.0.1" in failures[0].getMessage()


async def test_a_collector_that_hangs_holds_nobody_up_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel_export, "EXPORT_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(otel_export, "CLOSE_SECONDS", 0.05)
    async with otel_collector() as collector:
        collector.answer_status = None
        async with exporting(collector.url) as export:
            export.ended(answered())
            await collector.wait_posts(1)
            began = time.monotonic()
        assert time.monotonic() - began < 5.0


def test_who_wants_traces_without_the_packages_reads_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(NoOtelPackages, match=r"pip install 'steersman\[otel\]'"):
        SpanExport(Exported("http://127.0.0.1:1/v1/traces", "b", "1"))
