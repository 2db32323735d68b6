"""The `traceparent` of W3C Trace Context (level 1, section 3.2): read strictly, handed on. Pure."""

import re
from dataclasses import dataclass
from typing import Final

TRACEPARENT: Final = "traceparent"
MAX_TRACEPARENT_CHARACTERS: Final = 512
"""Later versions may append fields; a longer header than this is nobody's."""

_FIELDS: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 0x01


@dataclass(frozen=True, slots=True)
class TraceContext:
    """`parent_id`: the span above, None in a trace that begins here. `span_id`: our own, None when we make none."""

    trace_id: str
    parent_id: str | None
    is_sampled: bool
    span_id: str | None = None

    @property
    def traceparent(self) -> str | None:
        """What to hand on: our own span if there is one, else the one above."""
        above = self.span_id or self.parent_id
        return None if above is None else f"00-{self.trace_id}-{above}-{'01' if self.is_sampled else '00'}"


def read_traceparent(header: str | None) -> TraceContext | None:
    """None for a header that is absent or invalid: then it is as if nobody had sent one (section 4.3)."""
    if header is None or len(header) > MAX_TRACEPARENT_CHARACTERS:
        return None
    found = _FIELDS.fullmatch(header.strip(" \t"))
    if found is None:
        return None
    version, trace_id, parent_id, flags, rest = found.groups()
    # Version ff is invalid; version 00 has exactly these fields; of a later one they are read as if it were 00.
    if version == "ff" or (version == "00" and rest is not None):
        return None
    if not trace_id.strip("0") or not parent_id.strip("0"):  # all zeros are invalid
        return None
    return TraceContext(trace_id, parent_id, bool(int(flags, 16) & _SAMPLED))
