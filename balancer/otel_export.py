"""Spans of requests, to an OpenTelemetry collector over OTLP/HTTP. The only file that knows OpenTelemetry's packages,
which are the extra `otel`.

Spans are batched and sent by a thread of the SDK: a collector that is slow, away or refuses costs spans and nothing
else. A failure is logged when it begins, not with every batch.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from balancer.genai_attributes import attributes_of, events_of, is_error, span_name
from balancer.request_record import QuietObserver, RequestRecord
from shared.trace_context import TraceContext

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

SERVICE: Final = "steersman-balancer"
EXPORT_TIMEOUT_SECONDS: Final = 3.0
CLOSE_SECONDS: Final = 2.0
"""After these no further batch is begun; one that is under way has EXPORT_TIMEOUT_SECONDS."""
MAX_QUEUED_SPANS: Final = 4096
BATCH_SPANS: Final = 512
BATCH_DELAY_SECONDS: Final = 2.0

_NANOSECONDS: Final = 1_000_000_000

_log = logging.getLogger(__name__)


class NoOtelPackages(Exception):
    """Traces are wanted, but what exports them is not installed."""

    def __init__(self) -> None:
        super().__init__("--otel-endpoint needs packages that are not installed: pip install 'steersman[otel]'")


@dataclass(frozen=True, slots=True)
class Exported:
    """Who we are in traces. `clock` is that of the records, monotonic in seconds."""

    endpoint: str
    instance_id: str
    version: str
    clock: Callable[[], float] = time.monotonic
    batch_delay_seconds: float = BATCH_DELAY_SECONDS


class SpanExport(QuietObserver):
    """One span for each request; made once it has ended, with the ids that its record has had from the beginning."""

    @classmethod
    async def open(cls, told: Exported) -> "SpanExport":
        """Ready to be told of requests. Raises NoOtelPackages."""
        return await asyncio.to_thread(cls, told)  # imports many files, and the SDK looks around where it runs

    def __init__(self, told: Exported) -> None:
        """Starts the thread; blocks for a moment. Raises NoOtelPackages."""
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.trace.id_generator import IdGenerator
        except ImportError:
            raise NoOtelPackages from None

        class GivenIds(IdGenerator):
            """The record's instead of random ones."""

            def __init__(self) -> None:
                self.trace_id = self.span_id = 1

            def generate_trace_id(self) -> int:
                return self.trace_id

            def generate_span_id(self) -> int:
                return self.span_id

        self._api = trace
        self._clock = told.clock
        self._ids = GivenIds()
        self._gate = _Gate(told.endpoint)
        self._provider = _provider(told, self._ids, self._gate)
        self._tracer = self._provider.get_tracer("steersman", told.version)

    def ended(self, record: RequestRecord) -> None:
        """Queue the span; never blocks. With the queue full the oldest is lost."""
        if record.trace is None or record.trace.span_id is None:
            return
        trace, started_at = self._api, time.time_ns() - _nanoseconds(self._clock())
        self._ids.trace_id, self._ids.span_id = int(record.trace.trace_id, 16), int(record.trace.span_id, 16)
        span = self._tracer.start_span(
            span_name(record),
            context=self._above(record.trace),
            kind=trace.SpanKind.SERVER,
            attributes=attributes_of(record),
            start_time=started_at + _nanoseconds(record.arrived_at),
        )
        for name, at in events_of(record):
            span.add_event(name, timestamp=started_at + _nanoseconds(at))
        if is_error(record):
            span.set_status(trace.StatusCode.ERROR, None if record.failure is None else record.failure.value)
        span.end(started_at + _nanoseconds(record.ended_at))

    async def aclose(self) -> None:
        """Send what is queued, for a bounded time whatever the collector does."""
        self._gate.close_at(time.monotonic() + CLOSE_SECONDS)
        # Not the loop's own threads: those are waited for without end when the process stops.
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def shut_down() -> None:
            self._provider.shutdown()
            loop.call_soon_threadsafe(done.set)

        threading.Thread(target=shut_down, name="close traces", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_SECONDS + 2 * EXPORT_TIMEOUT_SECONDS):
                await done.wait()
        except TimeoutError:
            _log.warning("the last spans could not be exported in time")

    def _above(self, context: TraceContext) -> Any:
        """What the SDK is to take for the span above; without one it begins a trace, of the id that it is given."""
        trace = self._api
        if context.parent_id is None:
            return None
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if context.is_sampled else trace.TraceFlags.DEFAULT)
        above = trace.SpanContext(int(context.trace_id, 16), int(context.parent_id, 16), True, flags)
        return trace.set_span_in_context(trace.NonRecordingSpan(above))


def _provider(told: Exported, ids: Any, gate: "_Gate") -> "TracerProvider":
    """Ours alone: nothing of the SDK is global. Its samplers and limits can be set by its environment variables."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Guarded(SpanExporter):
        """An exporter whose failures are ours to tell."""

        def __init__(self) -> None:
            self._inner: SpanExporter = OTLPSpanExporter(endpoint=told.endpoint, timeout=EXPORT_TIMEOUT_SECONDS)

        def export(self, spans: "Sequence[ReadableSpan]") -> SpanExportResult:
            if gate.is_closed:
                return SpanExportResult.FAILURE
            try:
                result = self._inner.export(spans)
            except Exception as error:
                gate.told(type(error).__name__)
                return SpanExportResult.FAILURE
            gate.told(None if result is SpanExportResult.SUCCESS else "it cannot be reached or refuses them")
            return result

        def shutdown(self) -> None:
            self._inner.shutdown()

    # It would tell of every batch. What matters is told by `gate`.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    resource = Resource.create(
        {"service.name": SERVICE, "service.version": told.version, "service.instance.id": told.instance_id}
    )
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(
        BatchSpanProcessor(
            Guarded(),
            max_queue_size=MAX_QUEUED_SPANS,
            schedule_delay_millis=told.batch_delay_seconds * 1000,
            max_export_batch_size=BATCH_SPANS,
        )
    )
    return provider


class _Gate:
    """Whether batches are still sent, and whether the last one went well. Used by the SDK's thread, closed by ours."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._is_failing = False
        self._closes_at = float("inf")

    @property
    def is_closed(self) -> bool:
        """No further batch is to be begun."""
        return time.monotonic() >= self._closes_at

    def close_at(self, when: float) -> None:
        """By the monotonic clock."""
        self._closes_at = when

    def told(self, problem: str | None) -> None:
        """How a batch went. Only a change is worth a line."""
        if problem is not None and not self._is_failing:
            _log.warning("spans cannot be exported to %s and are dropped until they can: %s", self._endpoint, problem)
        elif problem is None and self._is_failing:
            _log.info("spans are exported to %s again", self._endpoint)
        self._is_failing = problem is not None


def _nanoseconds(seconds: float) -> int:
    return round(seconds * _NANOSECONDS)
