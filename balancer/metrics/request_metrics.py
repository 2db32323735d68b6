"""What clients experience: counted as requests begin, run and end, and exported by endpoint.

`tokens_relayed` is on the token path: one look-up and one observation for each read of a stream, and no labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from balancer.request_record import BROKEN, Endpoint, Outcome, RequestRecord
from shared.agent_figures import Histogram, HistogramCounts
from shared.failures import FailureKind
from shared.generation import Channel
from shared.metric_families import Family, counters, gauges, histograms

# vLLM's edges, so that panels made for it line up.
FIRST_TOKEN_EDGES: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
DURATION_EDGES: Final = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0),
    *(40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
# The same, and below them what small models do.
TOKEN_GAP_EDGES: Final = (
    *(0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
# The same as of the duration, and below them a room that is nearly empty.
QUEUE_WAIT_EDGES: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, *DURATION_EDGES)

NO_FAILURE: Final = "none"
_BEFORE_OR_AFTER: Final = frozenset({FailureKind.GRAMMAR_REJECTED_OUTPUT, FailureKind.SHUTTING_DOWN})
_ENDPOINT: Final = ("endpoint",)

OutcomeKey = tuple[Endpoint, Outcome, FailureKind | None]


@dataclass(frozen=True, slots=True)
class RequestStatistics:
    """Everything counted so far; totals since the start, except `in_flight`."""

    in_flight: dict[Endpoint, int]
    outcomes: dict[OutcomeKey, int]
    prompt_tokens: dict[Endpoint, int]
    cached_prompt_tokens: dict[Endpoint, int]
    generated_tokens: dict[tuple[Endpoint, Channel], int]
    queue_wait: HistogramCounts
    first_token: dict[Endpoint, HistogramCounts]
    token_gap: dict[Endpoint, HistogramCounts]
    output_token: dict[Endpoint, HistogramCounts]
    duration: dict[Endpoint, HistogramCounts]


class RequestMetrics:
    """A `RequestObserver`. Memory is bounded: every key is of a closed set."""

    def __init__(self) -> None:
        self._in_flight = dict.fromkeys(Endpoint, 0)
        self._outcomes: dict[OutcomeKey, int] = {key: 0 for one in Endpoint for key in _usual_outcomes(one)}
        self._prompt_tokens = dict.fromkeys(Endpoint, 0)
        self._cached_prompt_tokens = dict.fromkeys(Endpoint, 0)
        self._generated_tokens = {(one, kind): 0 for one in Endpoint for kind in Channel}
        self._queue_wait = Histogram(QUEUE_WAIT_EDGES)
        self._first_token = {one: Histogram(FIRST_TOKEN_EDGES) for one in Endpoint}
        self._token_gap = {one: Histogram(TOKEN_GAP_EDGES) for one in Endpoint}
        self._observe_gap = {one: histogram.observe for one, histogram in self._token_gap.items()}
        self._output_token = {one: Histogram(TOKEN_GAP_EDGES) for one in Endpoint}
        self._duration = {one: Histogram(DURATION_EDGES) for one in Endpoint}

    # Facts

    def began(self, endpoint: Endpoint) -> None:
        self._in_flight[endpoint] += 1

    def tokens_relayed(self, endpoint: Endpoint, gap_seconds: float, tokens: int) -> None:
        """One observation however many tokens came: what a reader sees is the pause. vLLM counts the same way."""
        self._observe_gap[endpoint](gap_seconds)

    def ended(self, record: RequestRecord) -> None:
        endpoint = record.endpoint
        self._in_flight[endpoint] -= 1
        key = (endpoint, record.outcome, record.failure)
        self._outcomes[key] = self._outcomes.get(key, 0) + 1
        self._prompt_tokens[endpoint] += record.prompt_tokens
        self._cached_prompt_tokens[endpoint] += record.cached_prompt_tokens
        self._generated_tokens[endpoint, Channel.CONTENT] += record.content_tokens
        self._generated_tokens[endpoint, Channel.REASONING] += record.reasoning_tokens
        self._generated_tokens[endpoint, Channel.TOOL_CALL] += record.tool_call_tokens
        self._generated_tokens[endpoint, Channel.UNDETERMINABLE] += record.undeterminable_tokens
        self._duration[endpoint].observe(max(0.0, record.duration_seconds))
        _observe(self._queue_wait, record.queue_wait_seconds)
        _observe(self._first_token[endpoint], record.time_to_first_token_seconds)
        _observe(self._output_token[endpoint], record.time_per_output_token_seconds)

    # Questions

    def statistics(self) -> RequestStatistics:
        """A copy that does not change any more."""
        return RequestStatistics(
            in_flight=dict(self._in_flight),
            outcomes=dict(self._outcomes),
            prompt_tokens=dict(self._prompt_tokens),
            cached_prompt_tokens=dict(self._cached_prompt_tokens),
            generated_tokens=dict(self._generated_tokens),
            queue_wait=self._queue_wait.read(),
            first_token=_read(self._first_token),
            token_gap=_read(self._token_gap),
            output_token=_read(self._output_token),
            duration=_read(self._duration),
        )


def request_families(figures: RequestStatistics) -> Iterator[Family]:
    """Every series is there from the start, so that a rate over it is right from the first event on."""
    yield counters(
        "requests_total",
        "Requests that ended, by how",
        ("endpoint", "outcome", "failure"),
        (((one, outcome, failure or NO_FAILURE), count) for (one, outcome, failure), count in figures.outcomes.items()),
    )
    yield gauges("requests_in_flight", "Requests that wait or run now", _ENDPOINT, _by_endpoint(figures.in_flight))
    yield counters(
        "prompt_tokens_total", "Prompt tokens of requests that ended", _ENDPOINT, _by_endpoint(figures.prompt_tokens)
    )
    yield counters(
        "cached_prompt_tokens_total",
        "Prompt tokens that an agent still had the cells of",
        _ENDPOINT,
        _by_endpoint(figures.cached_prompt_tokens),
    )
    yield counters(
        "generated_tokens_total",
        "Tokens generated for requests that ended, by what they are",
        ("endpoint", "kind"),
        figures.generated_tokens.items(),
    )
    yield histograms(
        "queue_wait_seconds",
        "How long requests waited for a slot, with or without luck",
        QUEUE_WAIT_EDGES,
        (),
        [((), figures.queue_wait)],
    )
    for name, help_text, edges, counted in (
        (
            "time_to_first_token_seconds",
            "From a request's head to its first token",
            FIRST_TOKEN_EDGES,
            figures.first_token,
        ),
        ("inter_token_latency_seconds", "Pause between two outputs of one stream", TOKEN_GAP_EDGES, figures.token_gap),
        (
            "time_per_output_token_seconds",
            "Mean gap between the tokens of one answer",
            TOKEN_GAP_EDGES,
            figures.output_token,
        ),
        ("request_duration_seconds", "From a request's head to its end", DURATION_EDGES, figures.duration),
    ):
        yield histograms(name, help_text, edges, _ENDPOINT, (((one,), counts) for one, counts in counted.items()))


def _usual_outcomes(endpoint: Endpoint) -> Iterator[OutcomeKey]:
    """Failures of requests and places are refusals, the others befall what has begun; what else happens is added."""
    yield endpoint, Outcome.ANSWERED, None
    yield endpoint, Outcome.CANCELLED, None
    for kind in FailureKind:
        if kind not in BROKEN:
            yield endpoint, Outcome.REFUSED, kind
        if kind in BROKEN or kind in _BEFORE_OR_AFTER:
            yield endpoint, Outcome.FAILED, kind


def _observe(histogram: Histogram, seconds: float | None) -> None:
    if seconds is not None:
        histogram.observe(max(0.0, seconds))


def _read(histograms_by_endpoint: dict[Endpoint, Histogram]) -> dict[Endpoint, HistogramCounts]:
    return {one: histogram.read() for one, histogram in histograms_by_endpoint.items()}


def _by_endpoint(figures: dict[Endpoint, int]) -> Iterator[tuple[tuple[str], float]]:
    return (((one,), value) for one, value in figures.items())
