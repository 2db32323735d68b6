"""What a bench asks, how it reads the three kinds of answers, and what it reports."""

from typing import Any

import pytest

from balancer.console.bench_report import Findings, advice, percentile, report_lines
from balancer.console.bench_requests import APIS, DONE, Piece, prompt_ids, prompt_text, reason
from balancer.console.settings import Api, BenchSettings
from balancer.console.text import columns_of


def settings(**changes: Any) -> BenchSettings:
    return BenchSettings.model_validate({"url": "http://127.0.0.1:8061", **changes})


@pytest.mark.parametrize("tokens", [1, 2, 7, 300])
def test_prompts_have_their_length_and_no_two_begin_alike(tokens: int) -> None:
    assert len(prompt_text(5, tokens).split()) == tokens
    assert len({prompt_text(number, tokens).split()[0] for number in range(50)}) == 50
    assert len(prompt_ids(5, tokens)) == tokens
    if tokens > 1:
        assert len({tuple(prompt_ids(number, tokens)[:2]) for number in range(2000)}) == 2000


@pytest.mark.parametrize("api", list(APIS))
def test_a_body_is_bounded(api: Api) -> None:
    body = APIS[api].body(settings(max_tokens=9, prompt_tokens=3), 0, "tiny")
    assert 9 in body.values()
    assert body.get("stream", True) is True
    assert APIS[api].needs_model == ("model" in body)


def native(document: object) -> dict[str, Any]:
    return {"Response": {"generated_by": "a", "request_id": "r", "response": {"GeneratedToken": document}}}


USAGE = {
    "prompt_tokens": 5,
    "cached_prompt_tokens": 2,
    "content_tokens": 3,
    "reasoning_tokens": 1,
    "tool_call_tokens": 0,
    "undeterminable_tokens": 0,
}
COMPAT_USAGE = {"prompt_tokens": 5, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}


@pytest.mark.parametrize(
    ("api", "document", "piece"),
    [
        ("raw-prompt", native({"ContentToken": "x"}), Piece(has_text=True)),
        ("raw-prompt", native({"Done": {"usage": USAGE}}), Piece(False, True, 4, 5, 2)),
        ("raw-prompt", native({"SamplerError": "why\x1b"}), Piece(is_end=True, failure="SamplerError: why?")),
        (
            "raw-prompt",
            {"Error": {"error": {"code": 503, "description": "full"}}},
            Piece(is_end=True, failure="503 full"),
        ),
        ("completions", {"choices": [{"text": "x"}], "usage": None}, Piece(has_text=True)),
        ("completions", {"choices": [{"text": ""}], "usage": None}, Piece()),
        ("completions", {"choices": [], "usage": COMPAT_USAGE}, Piece(False, False, 4, 5, 2)),
        ("completions", DONE, Piece(is_end=True)),
        ("completions", {"error": {}, "code": 504, "message": "late"}, Piece(is_end=True, failure="504 late")),
        ("complete", {"completion": "x"}, Piece(has_text=True)),
        ("complete", DONE, Piece(is_end=True)),
        ("complete", {"code": "overloaded", "error": "full"}, Piece(is_end=True, failure="overloaded full")),
    ],
)
def test_each_api_is_read_in_its_own_words(api: Api, document: object, piece: Piece) -> None:
    assert APIS[api].read(document) == piece


def test_a_reason_is_one_short_harmless_line() -> None:
    shown = reason(503, "a\n\x1b" + "b" * 500)
    assert shown.isprintable()
    assert columns_of(shown) <= 90


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [percentile(values, part) for part in (0.0, 0.5, 0.95, 0.99, 1.0)] == [1.0, 50.0, 95.0, 99.0, 100.0]
    assert percentile([], 0.5) is None
    assert percentile([7.0], 0.5) == 7.0


def test_the_report_is_short_and_says_what_failed() -> None:
    found = Findings(answered=3, generated_tokens=100, prompt_tokens=50, cached_tokens=2, seconds=2.0)
    found.first_token.extend([0.1, 0.2, 0.4])
    found.failures["503 full"] += 1
    lines = report_lines(settings(requests=4), found, 80)
    assert any(line.startswith("tokens/s") and "50.0" in line and "(100 tokens in 2.0 s)" in line for line in lines)
    assert "FAILED 1 request of 4:" in lines
    assert all(columns_of(line) <= 80 for line in lines)
    assert "fewer --streams" in lines[-1]


def test_an_api_that_counts_no_tokens_is_said_to() -> None:
    found = Findings(answered=1, generated_tokens=7, counts_events=True, seconds=1.0)
    lines = report_lines(settings(), found, 80)
    assert any("7 pieces of text" in line for line in lines)
    assert any("this API does not count them" in line for line in lines)


@pytest.mark.parametrize("kind", ["503 a", "504 a", "401 a", "400 a", "the stream broke off"])
def test_every_failure_has_a_next_step(kind: str) -> None:
    found = Findings()
    found.failures[kind] += 1
    assert advice(found)
