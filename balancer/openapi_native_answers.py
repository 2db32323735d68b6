"""The lines of Paddler's raw prompt route, for the OpenAPI document. All are closed; see `native_dialect`."""

from typing import Annotated, Literal

from pydantic import Field

from shared.desired_state import StrictModel

Count = Annotated[int, Field(ge=0)]


class NativeUsage(StrictModel):
    """Paddler's eight counters, in tokens."""

    prompt_tokens: Count
    cached_prompt_tokens: Count
    input_image_tokens: Count
    input_audio_tokens: Count
    content_tokens: Count
    reasoning_tokens: Count
    tool_call_tokens: Count
    undeterminable_tokens: Count


class NativeDone(StrictModel):
    """How it ended."""

    usage: NativeUsage
    finish_reason: Literal["stop", "length"]
    matched_stop: str | int | None


class ContentToken(StrictModel):
    """A piece of the answer's text."""

    ContentToken: str


class ReasoningToken(StrictModel):
    """A piece of what the model thought."""

    ReasoningToken: str


class ToolCallToken(StrictModel):
    """A piece of a tool call."""

    ToolCallToken: str


class UndeterminableToken(StrictModel):
    """A piece of nobody knows what."""

    UndeterminableToken: str


class Done(StrictModel):
    """The last line of a stream that went well."""

    Done: NativeDone


class GrammarSyntaxError(StrictModel):
    """The grammar cannot be read; a sentence."""

    GrammarSyntaxError: str


class GrammarInitializationFailed(StrictModel):
    """The grammar cannot be run; a sentence."""

    GrammarInitializationFailed: str


class GrammarRejectedModelOutput(StrictModel):
    """The output broke out of the grammar; a sentence."""

    GrammarRejectedModelOutput: str


class GrammarIncompatibleWithThinking(StrictModel):
    """A sentence."""

    GrammarIncompatibleWithThinking: str


class TokenGenerationDisabled(StrictModel):
    """A sentence."""

    TokenGenerationDisabled: str


class SamplerError(StrictModel):
    """A sentence."""

    SamplerError: str


Variant = (
    ContentToken
    | ReasoningToken
    | ToolCallToken
    | UndeterminableToken
    | Done
    | GrammarSyntaxError
    | GrammarInitializationFailed
    | GrammarRejectedModelOutput
    | GrammarIncompatibleWithThinking
    | TokenGenerationDisabled
    | SamplerError
)


class GeneratedToken(StrictModel):
    """One of the variants."""

    GeneratedToken: Variant


class NativeResponse(StrictModel):
    """`generated_by`: the agent's name, if it has one."""

    generated_by: str | None
    request_id: str
    response: GeneratedToken


class ResponseLine(StrictModel):
    """A line of a stream."""

    Response: NativeResponse


class NativeError(StrictModel):
    """`code`: as an HTTP status."""

    code: int
    description: str


class NativeFailure(StrictModel):
    """Which request failed, and why."""

    request_id: str
    error: NativeError


class ErrorLine(StrictModel):
    """The last line of a stream that failed."""

    Error: NativeFailure
