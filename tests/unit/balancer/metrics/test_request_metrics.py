"""What is counted of requests."""

from typing import Any

from balancer.metrics.exposition import Metrics
from balancer.metrics.request_metrics import NO_FAILURE, RequestMetrics, request_families
from balancer.request_record import Endpoint, Outcome, RequestRecord
from shared.failures import FailureKind
from tests.support.exported import Exported

HISTOGRAMS = [
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "time_per_output_token_seconds",
    "request_duration_seconds",
]


def record(**changes: Any) -> RequestRecord:
    """Answered in five seconds with five tokens; it waited for one."""
    fields: dict[str, Any] = {
        "request_id": "r",
        "endpoint": Endpoint.RAW_PROMPT,
        "arrived_at": 100.0,
        "admitted_at": 100.0,
        "dispatched_at": 101.0,
        "accepted_at": 101.5,
        "first_token_at": 102.0,
        "last_token_at": 104.0,
        "ended_at": 105.0,
        "choices": 1,
        "prompt_tokens": 9,
        "cached_prompt_tokens": 4,
        "content_tokens": 5,
        "status": 200,
        "outcome": Outcome.ANSWERED,
    }
    return RequestRecord(**{**fields, **changes})


async def exported(metrics: RequestMetrics) -> Exported:
    figures = metrics.statistics()
    return Exported.of(await Metrics([lambda: lambda: request_families(figures)]).exposition())


async def test_everything_is_there_before_the_first_request() -> None:
    found = await exported(RequestMetrics())
    assert set(found.values.values()) == {0.0}
    outcomes = found.by_label("steersman_requests_total")
    for endpoint in Endpoint:
        assert outcomes[endpoint, NO_FAILURE, "answered"] == 0
        assert outcomes[endpoint, "agent_lost", "failed"] == 0
        for kind in FailureKind:
            assert any(found[:2] == (endpoint, kind) for found in outcomes), kind
        for name in HISTOGRAMS:
            assert found.value(f"steersman_{name}_count", endpoint=endpoint) == 0


async def test_a_request_is_observed_once_in_each_histogram() -> None:
    metrics = RequestMetrics()
    metrics.began(Endpoint.RAW_PROMPT)
    metrics.tokens_relayed(Endpoint.RAW_PROMPT, 0.5, 4)
    metrics.ended(record())
    found = await exported(metrics)
    for name, total in zip(HISTOGRAMS, (2.0, 0.5, 0.5, 5.0), strict=True):
        assert found.value(f"steersman_{name}_count", endpoint="raw_prompt") == 1, name
        assert found.value(f"steersman_{name}_sum", endpoint="raw_prompt") == total, name
        assert found.value(f"steersman_{name}_count", endpoint="complete") == 0, name
    assert found.value("steersman_queue_wait_seconds_count") == 1
    assert found.value("steersman_queue_wait_seconds_sum") == 1.0
    assert found.value("steersman_inter_token_latency_seconds_bucket", endpoint="raw_prompt", le="0.4") == 0
    assert found.value("steersman_inter_token_latency_seconds_bucket", endpoint="raw_prompt", le="0.5") == 1


async def test_tokens_are_counted_by_kind() -> None:
    metrics = RequestMetrics()
    metrics.ended(record(reasoning_tokens=2, tool_call_tokens=3, undeterminable_tokens=1))
    metrics.ended(record(endpoint=Endpoint.COMPLETIONS))
    found = await exported(metrics)
    assert found.value("steersman_prompt_tokens_total", endpoint="raw_prompt") == 9
    assert found.value("steersman_cached_prompt_tokens_total", endpoint="completions") == 4
    generated = found.by_label("steersman_generated_tokens_total")
    assert [generated["raw_prompt", kind] for kind in ("content", "reasoning", "tool_call", "undeterminable")] == [
        *(5, 2, 3, 1)
    ]


async def test_a_request_that_got_no_slot_has_waited_and_lasted_and_nothing_else() -> None:
    metrics = RequestMetrics()
    never = dict.fromkeys(("dispatched_at", "accepted_at", "first_token_at", "last_token_at"))
    metrics.ended(record(outcome=Outcome.REFUSED, failure=FailureKind.WAITED_TOO_LONG, content_tokens=0, **never))
    found = await exported(metrics)
    refused = {"endpoint": "raw_prompt", "outcome": "refused", "failure": "waited_too_long"}
    assert found.value("steersman_requests_total", **refused) == 1
    assert found.value("steersman_queue_wait_seconds_sum") == 5.0
    assert found.value("steersman_request_duration_seconds_count", endpoint="raw_prompt") == 1
    assert found.value("steersman_time_to_first_token_seconds_count", endpoint="raw_prompt") == 0
    assert found.value("steersman_time_per_output_token_seconds_count", endpoint="raw_prompt") == 0


async def test_requests_in_flight_are_those_that_began_and_have_not_ended() -> None:
    metrics = RequestMetrics()
    metrics.began(Endpoint.COMPLETE)
    metrics.began(Endpoint.COMPLETE)
    metrics.ended(record(endpoint=Endpoint.COMPLETE))
    assert (await exported(metrics)).by_label("steersman_requests_in_flight") == {
        ("raw_prompt",): 0,
        ("completions",): 0,
        ("complete",): 1,
    }


async def test_an_outcome_that_is_unusual_gets_its_own_series() -> None:
    metrics = RequestMetrics()
    unusual = {"outcome": Outcome.FAILED, "failure": FailureKind.BUFFER_FULL}
    metrics.ended(record(**unusual))
    found = await exported(metrics)
    assert found.value("steersman_requests_total", endpoint="raw_prompt", outcome="failed", failure="buffer_full") == 1
