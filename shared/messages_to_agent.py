"""What a balancer tells an agent. Control messages; there are few of them per request."""

from typing import Annotated

from pydantic import AfterValidator, Field

from shared.desired_state import AgentDesiredState, StrictModel
from shared.generation_options import LogprobOptions, SamplingOptions, StopOptions

MAX_ADDRESSES = 64
MAX_PREFIX_HASHES = 64
MAX_INLINE_TEXT = 64 * 1024 * 1024

MAX_CONSTRAINT_BYTES = 1024 * 1024  # in UTF-8
MAX_ROOT_CHARACTERS = 256
MAX_ADAPTER_NAME_CHARACTERS = 256
MAX_TRACEPARENT_CHARACTERS = 55  # of version 00, which is what we write

Id = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seed = Annotated[int, Field(ge=0, le=2**64 - 1)]


class Welcome(StrictModel):
    """The answer to an agent's first message: the link is up."""

    balancer_id: Annotated[str, Field(max_length=64)]
    heartbeat_interval_ms: Annotated[int, Field(ge=100, le=600_000)]
    balancer_addresses: Annotated[list[str], Field(max_length=MAX_ADDRESSES)]  # the others, to dial as well


class SetState(StrictModel):
    """Apply this state. `revision` orders states; an identical state under a higher revision reloads nothing."""

    revision: Id
    state: AgentDesiredState


def _check_constraint_size(text: str) -> str:
    if len(text) > MAX_CONSTRAINT_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_CONSTRAINT_BYTES:
        raise ValueError(f"a constraint has at most {MAX_CONSTRAINT_BYTES} bytes")
    return text


class ConstraintText(StrictModel):
    """A grammar as the client wrote it; `kind` is `gbnf`, `json_schema`, `ebnf`, `regex` or `structural_tag`.

    `text`: of the last and of `json_schema` JSON, of `regex` the pattern. `root`: the first rule, of `gbnf` only.
    """

    kind: Annotated[str, Field(max_length=32)]
    text: Annotated[str, AfterValidator(_check_constraint_size)]
    root: Annotated[str, Field(max_length=MAX_ROOT_CHARACTERS)] | None = None


class Generate(StrictModel):
    """Run one member. Exactly one of `raw_prompt` and `prompt_token_ids` is given.

    `prompt_token_ids` is packed: little-endian int32 per token, one `bin` field. `prefix_hashes` are 64-bit hashes
    of growing prefixes of the prompt (see `shared.prefix_hashes`).

    `echo`: the prompt's text comes first, in items without token ids. `adapter`: by its name in the desired state.
    `parses_special`: names of special tokens in a `raw_prompt` become those tokens.

    `traceparent`: of the trace that the request belongs to (see `shared.trace_context`), for logs.
    """

    member: Id
    attempt: Id
    request_id: Annotated[str, Field(max_length=128)]
    raw_prompt: Annotated[str, Field(max_length=MAX_INLINE_TEXT)] | None = None
    prompt_token_ids: Annotated[bytes, Field(max_length=MAX_INLINE_TEXT)] | None = None
    max_tokens: Annotated[int, Field(ge=0, le=2**31 - 1)]
    seed: Seed
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    constraint: ConstraintText | None = None
    prefix_hashes: list[int] = Field(default_factory=list, max_length=MAX_PREFIX_HASHES)
    sampling: SamplingOptions | None = None  # None: as the desired state says
    stop: StopOptions | None = None
    logprobs: LogprobOptions | None = None
    echo: bool = False
    adapter: Annotated[str, Field(max_length=MAX_ADAPTER_NAME_CHARACTERS)] | None = None
    parses_special: bool = True
    traceparent: Annotated[str, Field(max_length=MAX_TRACEPARENT_CHARACTERS)] | None = None


class Cancel(StrictModel):
    """The client left, or waited too long: stop working on this member. It is answered by the member's end."""

    member: Id
    attempt: Id


class GetModelMetadata(StrictModel):
    """Answered by `ModelMetadata` with the same `query`."""

    query: Id


class GetChatTemplateOverride(StrictModel):
    """Answered by `ChatTemplateOverride` with the same `query`."""

    query: Id


MessageToAgent = Welcome | SetState | Generate | Cancel | GetModelMetadata | GetChatTemplateOverride
