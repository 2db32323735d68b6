"""What every dialect makes of a body, and all that the rest of the balancer knows of a request."""

from dataclasses import dataclass

from shared.generation_options import LogprobOptions, SamplingOptions, StopOptions
from shared.messages_to_agent import ConstraintText

MOST_BYTES_A_CHARACTER = 4  # in UTF-8


@dataclass(frozen=True, slots=True)
class MemberRequest:
    """One generation of a group: its choice number and its own seed (64 bits).

    A member of a batch also has its own prompt, a text or packed token ids; the others have the group's.
    """

    index: int
    seed: int
    raw_prompt: str | None = None
    prompt_token_ids: bytes | None = None


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """What holds for every member; the defaults are what happens when nobody asks (see `Generate`)."""

    sampling: SamplingOptions | None = None
    stop: StopOptions | None = None
    logprobs: LogprobOptions | None = None
    echo: bool = False
    adapter: str | None = None
    parses_special: bool = True


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A generation group: the unit of admission, of the waiting deadline and of the choice of agent.

    Exactly one of `raw_prompt` and `prompt_token_ids` (little-endian int32, packed) is given, here or at each member.
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
    options: GenerationOptions = GenerationOptions()
    traceparent: str | None = None  # of the trace that the client or we ourselves keep, as W3C writes it

    def prompt_of(self, member: MemberRequest) -> tuple[str | None, bytes | None]:
        """Text or packed token ids."""
        if member.raw_prompt is not None or member.prompt_token_ids is not None:
            return member.raw_prompt, member.prompt_token_ids
        return self.raw_prompt, self.prompt_token_ids

    @property
    def most_bytes(self) -> int:
        """An upper bound, cheap to tell, of what a member of the request takes on the way to an agent."""
        prompts = {self.prompt_of(member) for member in self.members}
        largest = max((_text_bytes(text or "") + len(packed or b"") for text, packed in prompts), default=0)
        return largest + (0 if self.constraint is None else _text_bytes(self.constraint.text))


def _text_bytes(text: str) -> int:
    return len(text) * (1 if text.isascii() else MOST_BYTES_A_CHARACTER)
