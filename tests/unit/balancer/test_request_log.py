"""One line at each request's end: the names of docs/logs.md, all of them, and no text of a prompt."""

import json
import logging
import re
from pathlib import Path

import pytest

from balancer.generation_request import GenerationRequest, MemberRequest
from balancer.request_log import RequestLines, log_prompt, request_fields, warn_that_prompts_are_logged
from balancer.request_record import Outcome
from shared.failures import FailureKind
from shared.log_output import formatter_of
from tests.support.request_records import answered, refused

DOCS = Path(__file__).resolve().parents[3] / "docs" / "logs.md"


def test_the_line_for_people(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        RequestLines().ended(answered())
    (record,) = caplog.records
    assert formatter_of("readable", is_journal=True).format(record) == (
        "<6>balancer.request_log: request cmpl-1 answered endpoint=completions outcome=answered status=200 "
        "agents=gpu-1 model=tiny stream=yes choices=1 prompt_tokens=5 cached_prompt_tokens=3 generated_tokens=20 "
        "queue_wait_seconds=0.01 time_to_first_token_seconds=0.25 duration_seconds=1 finish_reasons=length "
        "trace_id=0af7651916cd43dd8448eb211c80319c span_id=00f067aa0ba902b7 client_request_id=their-1"
    )


def test_the_line_for_programs_has_every_field_always(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        RequestLines().ended(answered())
        RequestLines().ended(refused())
    first, second = (json.loads(formatter_of("json", is_journal=False).format(record)) for record in caplog.records)
    assert list(first) == list(second)
    assert first["message"] == "request cmpl-1 answered"
    assert first["agents"] == ["gpu-1"]
    assert (second["outcome"], second["failure"], second["status"]) == ("refused", "invalid_request", 400)
    assert second["queue_wait_seconds"] is None
    assert second["model"] is None


def test_only_what_failed_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        RequestLines().ended(answered(outcome=Outcome.FAILED, failure=FailureKind.AGENT_LOST))
        RequestLines().ended(refused())
        RequestLines().ended(answered(outcome=Outcome.CANCELLED, status=None))
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "INFO"]


def test_nothing_is_made_when_nothing_is_written(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        RequestLines().ended(answered())
    assert caplog.records == []


def test_the_documentation_names_every_field() -> None:
    table = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(request_fields(answered())) <= set(table)


# Prompts, for debugging


def asked(text: str | None, packed: bytes | None = None, choices: int = 1) -> GenerationRequest:
    members = tuple(MemberRequest(index, 7) for index in range(choices))
    return GenerationRequest("r1", "raw_prompt", text, packed, 16, members)


def prompts_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [json.loads(formatter_of("json", is_journal=False).format(record)) for record in caplog.records]
    assert all(line["request_id"] == "r1" for line in lines)
    return [line["prompt"] for line in lines]


def test_prompts_are_cut_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_prompt(asked("p" * 50_000, choices=4))
    assert prompts_in(caplog) == ["p" * 1000 + "..."]


def test_token_ids_are_told_as_numbers_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_prompt(asked(None, b"\x01\0\0\0\x00\x01\0\0"))
        log_prompt(asked(None, b"\x07\0\0\0" * 5000))
    short, long = prompts_in(caplog)
    assert short == "2 token ids: 1 256"
    assert long.startswith("5000 token ids: 7 7 7")
    assert long.endswith("7...")
    assert len(long) < 1000


def test_whoever_logs_prompts_is_told_so_loudly(caplog: pytest.LogCaptureFixture) -> None:
    warn_that_prompts_are_logged()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "--log-prompts" in caplog.text
