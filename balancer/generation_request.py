"""What every dialect makes of a body, and all that the rest of the balancer knows of a request."""

from dataclasses import dataclass

from shared.messages_to_agent import ConstraintText

MOST_BYTES_A_CHARACTER = 4  # in UTF-8


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

    @property
    def most_bytes(self) -> int:
        """An upper bound, cheap to tell, of what the request takes on the way to an agent."""
        texts = [self.raw_prompt or "", "" if self.constraint is None else self.constraint.text]
        text_bytes = sum(len(text) * (1 if text.isascii() else MOST_BYTES_A_CHARACTER) for text in texts)
        return text_bytes + len(self.prompt_token_ids or b"")
