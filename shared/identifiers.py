"""Names of things on the wire. Ids are made at the edges; cores only receive them."""

import secrets
import string
from typing import NewType

AgentId = NewType("AgentId", str)
"""Chosen by an agent for the life of its process."""

RequestId = NewType("RequestId", str)
"""What a client sees as `request_id`: 21 characters, like Paddler's."""

GroupId = NewType("GroupId", int)
"""One admitted request inside one balancer process; never reused."""

MemberId = NewType("MemberId", int)
"""One generation of a group inside one balancer process; never reused. Small on the wire, unique per link."""

_ALPHABET = string.ascii_letters + string.digits + "_-"


def new_identifier(length: int = 21) -> str:
    """A random identifier of `length` characters out of 64 (126 bits at the default length)."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
