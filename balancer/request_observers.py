"""Who hears of requests in this process, by its settings: the metrics, the log, and a collector of traces."""

from balancer.otel_export import Exported, SpanExport
from balancer.request_account import RequestBooks
from balancer.request_log import RequestLines, log_prompt, warn_that_prompts_are_logged
from balancer.request_record import RequestObserver
from balancer.settings import BalancerSettings
from shared.identifiers import new_identifier
from shared.version import software_version


async def open_spans(settings: BalancerSettings) -> SpanExport | None:
    """None when nobody asked for traces. Raises NoOtelPackages."""
    if settings.otel_endpoint is None:
        return None
    return await SpanExport.open(Exported(settings.otel_endpoint, new_identifier(), software_version()))


class RequestObservers:
    """`books`: what the routes write into. Close it when no request runs any more."""

    def __init__(self, settings: BalancerSettings, metrics: RequestObserver, spans: SpanExport | None) -> None:
        """`spans`: None when traces are not wanted."""
        self._spans = spans
        if settings.log_prompts:
            warn_that_prompts_are_logged()
        self.books = RequestBooks(
            observers=(metrics, RequestLines(), *([] if spans is None else [spans])),
            makes_spans=spans is not None,
            log_prompt=log_prompt if settings.log_prompts else None,
        )

    async def aclose(self) -> None:
        """The last spans leave, within a bounded time."""
        if self._spans is not None:
            await self._spans.aclose()
