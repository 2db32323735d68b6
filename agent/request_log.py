"""One line at each member's end, under the id that the balancer and its clients know the request by."""

import logging
from typing import Final

from shared.failures import Failure
from shared.generation import FinishReason, Usage
from shared.log_fields import fields
from shared.messages_to_agent import Generate
from shared.trace_context import read_traceparent

NOTHING: Final = Usage()

_log = logging.getLogger(__name__)


def log_member_end(
    message: Generate, link: int, seconds: float, ending: FinishReason | Failure | None, usage: Usage = NOTHING
) -> None:
    """`seconds`: since it arrived here. A request of several choices has a line for each."""
    if not _log.isEnabledFor(logging.INFO):
        return
    failure = ending.kind.value if isinstance(ending, Failure) else None
    trace = read_traceparent(message.traceparent)
    _log.info(
        "request %s %s",
        message.request_id,
        "failed" if failure is not None else "done",
        extra=fields(
            event="member_ended",
            request_id=message.request_id,
            member=message.member,
            attempt=message.attempt,
            link=link,
            failure=failure,
            prompt_tokens=usage.prompt_tokens,
            cached_prompt_tokens=usage.cached_prompt_tokens,
            generated_tokens=usage.completion_tokens,
            duration_seconds=round(seconds, 6),
            finish_reason=ending.value if isinstance(ending, FinishReason) else None,
            trace_id=None if trace is None else trace.trace_id,
            parent_span_id=None if trace is None else trace.parent_id,
        ),
    )
