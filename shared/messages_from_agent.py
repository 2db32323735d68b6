"""What an agent tells a balancer: control messages, and one frame of tokens per engine step and link.

Token frames are plain named tuples, checked by hand in `shared.wire`: pydantic on that path would cost more than
the rest of the relay.
"""

from typing import Annotated, NamedTuple

from pydantic import Field

from shared.agent_status import AgentStatus
from shared.desired_state import StrictModel
from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason, Usage
from shared.messages_to_agent import Id

MAX_METADATA_ENTRIES = 4096
MAX_METADATA_CHARACTERS = 16 * 1024 * 1024


class Hello(StrictModel):
    """The first message of a link."""

    agent_id: Annotated[str, Field(min_length=1, max_length=128)]
    name: Annotated[str, Field(max_length=256)] | None
    status: AgentStatus


class StatusUpdate(StrictModel):
    """A new snapshot of the agent."""

    status: AgentStatus


class Accepted(StrictModel):
    """The member's prompt is good and it has a slot; tokens follow."""

    member: Id
    attempt: Id
    prompt_tokens: Id


class Refused(StrictModel):
    """The member will not run anywhere: its request is wrong."""

    member: Id
    attempt: Id
    kind: Annotated[FailureKind, Field(strict=False)]
    message: Annotated[str, Field(max_length=8192)]
    parameter: Annotated[str, Field(max_length=256)] | None = None

    @property
    def failure(self) -> Failure:
        """The refusal as a value."""
        return Failure(self.kind, self.message, self.parameter)


class Busy(StrictModel):
    """No slot here now (another balancer was faster, or a model is being exchanged): back to your room."""

    member: Id
    attempt: Id


class ModelMetadata(StrictModel):
    """Metadata of the model that serves (every value as text); None when no model does."""

    query: Id
    metadata: Annotated[dict[str, str], Field(max_length=MAX_METADATA_ENTRIES)] | None


class ChatTemplateOverride(StrictModel):
    """The override that this agent applies; None when it uses the model's own template."""

    query: Id
    content: str | None


class TokenItem(NamedTuple):
    """Tokens of one member. `text` holds whole characters and may be empty (half a character, or a control token).

    No token ids at all, before the first token: the prompt advances and, if that was asked for, `text` is a piece of it
    (echo) and `logprobs` are those of some of its tokens, in order. After the first token: text that was held back.
    `logprobs`: packed (`shared.logprobs`), one place for each token id; None when nobody asked.
    """

    member: int
    attempt: int
    first_token_index: int
    token_ids: tuple[int, ...]
    text: str
    channel: Channel
    logprobs: bytes | None = None


class MemberEnd(NamedTuple):
    """The last word about one member: a finish reason, or a failure. It frees the slot.

    `matched_stop`: the stop string, the pattern of the regex, or the id out of the stop token ids that ended it; None
    at the model's own end, at the limit, and for a finished constraint.
    """

    member: int
    attempt: int
    finish_reason: FinishReason | None
    usage: Usage
    failure: Failure | None
    matched_stop: str | int | None = None


class TokenFrame(NamedTuple):
    """What one engine step brought for one link: items first, then ends."""

    items: tuple[TokenItem, ...]
    ends: tuple[MemberEnd, ...]


MessageFromAgent = Hello | StatusUpdate | Accepted | Refused | Busy | ModelMetadata | ChatTemplateOverride | TokenFrame
