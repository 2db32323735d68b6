"""Rates and percentiles, against Prometheus' own client."""

import math

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from balancer.console.metrics_reading import EMPTY, Numbers, has_restarted, numbers, quantile, read_metrics

INFINITY = math.inf


class Exported:
    """A balancer's figures, by the library that it exports them with."""

    def __init__(self) -> None:
        registry = CollectorRegistry(auto_describe=False)
        self.registry = registry
        self.generated = Counter("steersman_generated_tokens", "x", ["endpoint", "kind"], registry=registry)
        self.other = Counter("steersman_generated_tokens_of_something_else", "x", registry=registry)
        edges = (0.1, 1.0)
        self.first = Histogram(
            "steersman_time_to_first_token_seconds", "x", ["endpoint"], buckets=edges, registry=registry
        )

    def text(self) -> str:
        return generate_latest(self.registry).decode()


def test_counters_are_summed_over_their_labels_and_differences_become_rates() -> None:
    exported = Exported()
    exported.generated.labels('odd="}', "content").inc(10)
    old = read_metrics(exported.text(), 5.0)
    exported.generated.labels('odd="}', "content").inc(30)
    exported.generated.labels("complete", "content").inc(10)
    exported.other.inc(1000)
    new = read_metrics(exported.text(), 7.0)
    found = numbers(old, new)
    assert found.generated_per_second == 20.0
    assert found.requests_per_second is None  # it is not exported


def test_percentiles_are_of_what_came_between_two_readings_or_of_everything() -> None:
    exported = Exported()
    exported.first.labels("a").observe(0.05)
    old = read_metrics(exported.text(), 0.0)
    exported.first.labels("b").observe(0.5)
    new = read_metrics(exported.text(), 1.0)
    assert numbers(old, new).first_token_p50 == pytest.approx(0.55)
    assert numbers(old, new, EMPTY).first_token_p50 == pytest.approx(0.1)
    assert numbers(new, new).first_token_p95 is None


@pytest.mark.parametrize(("fleet", "rate"), [((1, 5), 2.0), ((0, 0), 10.0)])
def test_what_agents_say_while_they_work_goes_before_what_is_counted_at_the_end(
    fleet: tuple[int, int], rate: float
) -> None:
    text = "steersman_fleet_generated_tokens_total {}\nsteersman_generated_tokens_total {}\n"
    old, new = read_metrics(text.format(fleet[0], 0), 0.0), read_metrics(text.format(fleet[1], 20), 2.0)
    assert numbers(old, new).generated_per_second == rate


def test_strange_lines_are_passed_over() -> None:
    text = (
        "# HELP x\nsteersman_requests_total{\nsteersman_requests_total 3\nsteersman_requests_total x\nfoo 1\n"
        'steersman_time_to_first_token_seconds_bucket{le="a"} 1\nsteersman_time_to_first_token_seconds_bucket 1\n'
    )
    reading = read_metrics(text, 0.0)
    assert reading.counters == {"requests_total": 3.0}
    assert numbers(reading, reading) == Numbers()


def test_another_process_is_noticed() -> None:
    old, new = read_metrics("steersman_requests_total 3\n", 0.0), read_metrics("steersman_requests_total 1\n", 1.0)
    assert has_restarted(old, new)
    assert not has_restarted(new, old)
    assert numbers(old, new).requests_per_second == 0.0


@pytest.mark.parametrize(
    ("buckets", "fraction", "value"),
    [
        ({}, 0.5, None),
        ({1.0: 0, INFINITY: 0}, 0.5, None),
        ({1.0: 10, 2.0: 10, INFINITY: 10}, 0.5, 0.5),
        ({1.0: 5, 2.0: 10, INFINITY: 10}, 0.95, 1.9),
        ({1.0: 0, 2.0: 0, INFINITY: 10}, 0.5, 2.0),
        ({1.0: 0, 2.0: 10, INFINITY: 10}, 0.0, 1.0),
    ],
)
def test_a_percentile_is_prometheus_one(buckets: dict[float, float], fraction: float, value: float | None) -> None:
    found = quantile(buckets, fraction)
    assert found == (None if value is None else pytest.approx(value))
