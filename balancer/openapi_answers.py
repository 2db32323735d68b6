"""The shapes of what inference and compatibility answer, for the OpenAPI document. All are closed.

Nothing is validated by them while serving: the shapers are `native_dialect`, `completions_answers`, `complete_answers`
and `compat_errors`; a test holds every answer against these.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from shared.desired_state import StrictModel

Count = Annotated[int, Field(ge=0)]
FinishReason = Literal["stop", "length"]
LogprobTriple = tuple[float | None, int, str | None]
LogprobGroups = list[list[LogprobTriple] | None]


def absent() -> Any:
    """For a key that is not always there: pydantic's JSON schema does not require what has a factory."""
    raise NotImplementedError("these models only describe")


# /v1/completions


class OpenAiLogprobs(StrictModel):
    """OpenAI's four lists."""

    text_offset: list[Count]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float | None] | None]


class MetaInfo(StrictModel):
    """SGLang's six lists: log-probability, token id and text (null unless it was asked for)."""

    input_token_logprobs: list[LogprobTriple]
    output_token_logprobs: list[LogprobTriple]
    input_top_logprobs: LogprobGroups
    output_top_logprobs: LogprobGroups
    input_token_ids_logprobs: LogprobGroups
    output_token_ids_logprobs: LogprobGroups


class CompletionChoice(StrictModel):
    """`meta_info` with return_logprob, ids with return_token_ids; those of the prompt once a choice."""

    index: Count
    text: str
    logprobs: OpenAiLogprobs | None
    finish_reason: FinishReason | None
    matched_stop: str | int | None
    meta_info: MetaInfo = Field(default_factory=absent)
    token_ids: list[Count] = Field(default_factory=absent)
    prompt_token_ids: list[Count] | None = Field(default_factory=absent)


class CachedTokens(StrictModel):
    """Prompt tokens that needed no work."""

    cached_tokens: Count


class CompletionUsage(StrictModel):
    """In tokens: each prompt once, every answer."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    prompt_tokens_details: CachedTokens
    reasoning_tokens: Count


class CompletionAnswer(StrictModel):
    """A whole answer. `created`: Unix seconds."""

    id: str
    object: Literal["text_completion"]
    created: Count
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage


class CompletionChunk(StrictModel):
    """One event of a stream; a last one without choices has the usage, if it was asked for."""

    id: str
    object: Literal["text_completion"]
    created: Count
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage | None


class OpenAiInnerError(StrictModel):
    """What OpenAI's clients read. `code`: one word for programs."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAiError(StrictModel):
    """Both forms at once; here `code` is the status."""

    error: OpenAiInnerError
    object: Literal["error"]
    message: str
    type: str
    param: str | None
    code: int


class ServedModel(StrictModel):
    """`created` is not known, so it is 0."""

    id: str
    object: Literal["model"]
    created: Count
    owned_by: str


class ServedModels(StrictModel):
    """OpenAI's list."""

    object: Literal["list"]
    data: list[ServedModel]


# /v1/complete


class CompleteAnswer(StrictModel):
    """A whole answer, and one event of a stream."""

    type: Literal["completion"]
    id: str
    completion: str
    model: str
    stop_reason: Literal["stop_sequence", "length", "max_tokens"] | None


class Ping(StrictModel):
    """A sign of life in a stream of named events."""

    type: Literal["ping"]


class XaiError(StrictModel):
    """Two sentences: which sort of error, and what is wrong."""

    code: str
    error: str


class AnthropicInnerError(StrictModel):
    """One of Anthropic's words, and a sentence."""

    type: str
    message: str


class AnthropicError(StrictModel):
    """As an answer and as an event."""

    type: Literal["error"]
    error: AnthropicInnerError
