"""What a span says about a request, and what it never says."""

from pathlib import Path

import pytest

from balancer.genai_attributes import ATTRIBUTES, EVENTS, attributes_of, events_of, is_error, span_name
from balancer.request_record import Outcome
from shared.failures import FailureKind
from tests.support.request_records import answered, refused

DOCS = Path(__file__).resolve().parents[3] / "docs" / "logs.md"


def test_the_span_of_an_answer() -> None:
    assert span_name(answered()) == "text_completion tiny"
    assert attributes_of(answered()) == {
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "steersman",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": 20,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_k": -1,
        "gen_ai.response.id": "cmpl-1",
        "gen_ai.response.model": "tiny",
        "gen_ai.response.finish_reasons": ["length"],
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.output.type": "text",
        "http.response.status_code": 200,
        "steersman.endpoint": "completions",
        "steersman.outcome": "answered",
        "steersman.agents": ["gpu-1"],
        "steersman.queue_wait": pytest.approx(0.01),
        "steersman.client_request_id": "their-1",
    }


def test_the_span_of_a_refusal_says_why_and_nothing_that_did_not_happen() -> None:
    told = attributes_of(refused())
    assert span_name(refused()) == "text_completion"
    assert told["error.type"] == "invalid_request"
    assert "gen_ai.response.time_to_first_chunk" not in told
    assert "gen_ai.request.model" not in told
    assert events_of(refused()) == []


def test_events_are_in_the_order_in_which_they_happen() -> None:
    names = ["admitted", "dispatched", "accepted", "first_token", "last_token"]
    assert [name for name, _ in events_of(answered())] == [f"steersman.{name}" for name in names]
    times = [at for _, at in events_of(answered())]
    assert times == sorted(times)


def test_an_error_is_ours_and_not_the_clients() -> None:
    assert not is_error(answered())
    assert not is_error(refused())
    assert not is_error(answered(outcome=Outcome.CANCELLED))
    assert is_error(refused(status=503, failure=FailureKind.BUFFER_FULL))
    assert is_error(answered(outcome=Outcome.FAILED, failure=FailureKind.AGENT_LOST))


def test_the_documentation_names_every_attribute_and_event() -> None:
    text = DOCS.read_text(encoding="utf-8")
    names = [name for name, _ in (*ATTRIBUTES, *EVENTS)]
    assert [name for name in names if f"`{name}`" not in text and f"`.{name.rpartition('.')[2]}`" not in text] == []


def test_names_are_told_once_and_none_carries_text() -> None:
    names = [name for name, _ in ATTRIBUTES]
    assert len(names) == len(set(names))
    # The opt-in ones of the conventions, and those that quote what a client wrote.
    texts = ("messages", "instructions", "prompt", "completion", "stop_sequences", "tool")
    assert not [name for name in names if any(word in name.removeprefix("gen_ai.operation") for word in texts)]
