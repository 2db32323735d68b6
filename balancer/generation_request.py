"""What every dialect makes of a body, and all that the rest of the balancer knows of a request."""

from dataclasses import dataclass

from shared.messages_to_agent import ConstraintText


@dataclass(frozen=True, slots=True)
class MemberRequest:
    """One generation of a group: its choice number and its own seed (64 bits)."""

    index: int
    seed: int


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A generation group: the unit of admission, of the waiting deadline and of the choice of agent.

    Exactly one of `raw_prompt` and `prompt_token_ids` (little-endian int32, packed) is given.
    """

    request_id: str
    endpoint: str  # for metrics and logs: the route's short name
    raw_prompt: str | None
    prompt_token_ids: bytes | None
    max_tokens: int
    members: tuple[MemberRequest, ...]
    constraint: ConstraintText | None = None
    priority: int = 0
    prefix_hashes: tuple[int, ...] = ()
