"""W3C Trace Context, level 1: what is read, what is treated as if it were not there, what is handed on."""

import pytest

from shared.trace_context import TraceContext, read_traceparent

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("header", "is_sampled"),
    [
        (f"00-{TRACE}-{PARENT}-01", True),
        (f"00-{TRACE}-{PARENT}-00", False),
        (f" 00-{TRACE}-{PARENT}-01\t", True),
        (f"00-{TRACE}-{PARENT}-03", True),  # only the lowest bit has a meaning
        (f"cc-{TRACE}-{PARENT}-02", False),
        (f"cc-{TRACE}-{PARENT}-01-what-the-future-brings", True),
    ],
)
def test_what_is_read(header: str, is_sampled: bool) -> None:
    assert read_traceparent(header) == TraceContext(TRACE, PARENT, is_sampled)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "nonsense",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01-",
        f"cc-{TRACE}-{PARENT}-01.more",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{PARENT}-0g",
        f"0\u0660-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
        f"cc-{TRACE}-{PARENT}-01-{'x' * 1000}",
    ],
)
def test_what_is_wrong_is_as_if_nobody_had_sent_it(header: str | None) -> None:
    assert read_traceparent(header) is None


def test_what_is_handed_on_names_the_nearest_span() -> None:
    assert TraceContext(TRACE, PARENT, True).traceparent == f"00-{TRACE}-{PARENT}-01"
    assert TraceContext(TRACE, PARENT, False, "1" * 16).traceparent == f"00-{TRACE}-{'1' * 16}-00"
    assert TraceContext(TRACE, None, True, "1" * 16).traceparent == f"00-{TRACE}-{'1' * 16}-01"
    assert TraceContext(TRACE, None, True).traceparent is None


def test_what_is_handed_on_is_read_again() -> None:
    told = TraceContext(TRACE, PARENT, True, "1" * 16).traceparent
    assert read_traceparent(told) == TraceContext(TRACE, "1" * 16, True)
