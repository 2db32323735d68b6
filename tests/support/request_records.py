"""Records of requests as routes would have left them."""

from typing import Any

from balancer.request_record import Endpoint, Outcome, RequestRecord
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.generation_options import SamplingOptions
from shared.trace_context import TraceContext

TRACE = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", True, "00f067aa0ba902b7")


def answered(**changes: Any) -> RequestRecord:
    """One second long, with twenty tokens."""
    record = RequestRecord(
        "cmpl-1",
        Endpoint.COMPLETIONS,
        100.0,
        admitted_at=100.01,
        dispatched_at=100.02,
        accepted_at=100.03,
        first_token_at=100.25,
        last_token_at=100.9,
        ended_at=101.0,
        agent_names=["gpu-1"],
        choices=1,
        prompt_tokens=5,
        cached_prompt_tokens=3,
        content_tokens=20,
        status=200,
        outcome=Outcome.ANSWERED,
        finish_reasons=[FinishReason.LENGTH],
        is_stream=True,
        max_tokens=20,
        sampling=SamplingOptions(temperature=0.5, top_k=-1),
        model="tiny",
        trace=TRACE,
        client_request_id="their-1",
    )
    for name, value in changes.items():
        setattr(record, name, value)
    return record


def refused(**changes: Any) -> RequestRecord:
    """Its body was wrong."""
    record = RequestRecord(
        "compl_2",
        Endpoint.COMPLETE,
        100.0,
        ended_at=100.001,
        status=400,
        outcome=Outcome.REFUSED,
        failure=FailureKind.INVALID_REQUEST,
    )
    for name, value in changes.items():
        setattr(record, name, value)
    return record
