"""The agent's line names the request as the balancer does, and holds no text of it."""

import json
import logging
from pathlib import Path

import pytest

from agent.request_log import log_member_end
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason, Usage
from shared.log_output import fields_of, formatter_of
from shared.messages_to_agent import Generate

DOCS = Path(__file__).resolve().parents[3] / "docs" / "logs.md"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def asked(traceparent: str | None = TRACE) -> Generate:
    return Generate(
        member=3, attempt=1, request_id="cmpl-1", raw_prompt="secret", max_tokens=9, seed=1, traceparent=traceparent
    )


def test_an_end_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_member_end(asked(), 2, 1.5, FinishReason.STOP, Usage(5, 3, 7))
    (record,) = caplog.records
    assert formatter_of("readable", is_journal=True).format(record) == (
        "<6>agent.request_log: request cmpl-1 done member=3 attempt=1 link=2 prompt_tokens=5 cached_prompt_tokens=3 "
        "generated_tokens=7 duration_seconds=1.5 finish_reason=stop trace_id=0af7651916cd43dd8448eb211c80319c "
        "parent_span_id=b7ad6b7169203331"
    )


def test_a_failure_is_named_and_its_sentence_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_member_end(asked("nonsense"), 2, 0.0, Failure(FailureKind.GRAMMAR_SYNTAX, "near 'secret'"))
    line = formatter_of("json", is_journal=False).format(caplog.records[0])
    document = json.loads(line)
    assert (document["message"], document["failure"]) == ("request cmpl-1 failed", "grammar_syntax")
    assert document["trace_id"] is None
    assert "secret" not in line


def test_the_documentation_names_every_field(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_member_end(asked(), 2, 1.5, FinishReason.STOP, Usage(5, 3, 7))
    text = DOCS.read_text(encoding="utf-8")
    assert [name for name in fields_of(caplog.records[0]) if f"`{name}`" not in text] == []


def test_nothing_is_made_when_nothing_is_written(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        log_member_end(asked(), 2, 1.5, FinishReason.STOP)
    assert caplog.records == []
