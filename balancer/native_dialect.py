"""Paddler's wire in our words: a body becomes a generation group, each item of its stream becomes one line.

Pure. A line is one JSON document and a newline. What stands before and after the text is the same for every token of a
request, so it is made once; per token only the text is encoded.
"""

from typing import Annotated, Any, ClassVar, Final

import orjson
from pydantic import Field

from balancer import foreign_words
from balancer.choice_seeds import choice_seed
from balancer.generation_request import GenerationOptions, GenerationRequest, MemberRequest
from balancer.http_failures import ENDED_WITHOUT_TERMINAL, row_of, text_of
from balancer.native_grammar import OBJECTS_AS_TEXT, Grammar
from balancer.native_sampling import NativeSampling
from shared.desired_state import INT32_MAX, StrictModel
from shared.failures import Failure
from shared.generation import Channel, FinishReason, Usage
from shared.prefix_hashes import BLOCK_BYTES, MAX_HASHES, prefix_hashes

RAW_PROMPT_ENDPOINT: Final = "continue_from_raw_prompt"

# A character is at least one byte, so the blocks that are hashed lie within these.
HASHED_CHARACTERS: Final = BLOCK_BYTES * MAX_HASHES


class RawPromptBody(StrictModel):
    """The body of `POST /api/v1/continue_from_raw_prompt`. `max_tokens` is a hard limit."""

    OBJECTS_AS_TEXT: ClassVar = OBJECTS_AS_TEXT
    FOREIGN_WORDS: ClassVar = foreign_words.RAW_PROMPT

    raw_prompt: str
    max_tokens: Annotated[int, Field(ge=0, le=INT32_MAX)]
    grammar: Grammar | None = None
    sampling: NativeSampling | None = None

    def to_generation_request(self, request_id: str, seed: int) -> GenerationRequest | Failure:
        """A group of one. `seed`: 64 random bits, for when the body has none."""
        constraint = None if self.grammar is None else self.grammar.constraint()
        if isinstance(constraint, Failure):
            return constraint
        sampling = self.sampling
        options = GenerationOptions() if sampling is None else sampling.options()
        if sampling is not None and sampling.seed is not None:
            seed = choice_seed(sampling.seed, 0)
        return GenerationRequest(
            request_id=request_id,
            endpoint=RAW_PROMPT_ENDPOINT,
            raw_prompt=self.raw_prompt,
            prompt_token_ids=None,
            max_tokens=self.max_tokens,
            members=(MemberRequest(index=0, seed=seed),),
            constraint=constraint,
            priority=0 if sampling is None else sampling.priority,
            options=options,
            prefix_hashes=prefix_hashes(self.raw_prompt[:HASHED_CHARACTERS].encode(), "text"),
        )


_TOKEN_VARIANT: Final = {
    Channel.CONTENT: "ContentToken",
    Channel.REASONING: "ReasoningToken",
    Channel.TOOL_CALL: "ToolCallToken",
    Channel.UNDETERMINABLE: "UndeterminableToken",
}

# Line breaks to `str.splitlines`, which Paddler's Python client uses to cut the stream; JSON allows them raw.
_LINE_BREAKS: Final = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


def one_line_json(value: Any) -> bytes:
    """JSON that no line splitter cuts."""
    encoded = orjson.dumps(value)
    if not encoded.isascii():
        for raw, escaped in _LINE_BREAKS:
            encoded = encoded.replace(raw, escaped)
    return encoded


class NativeLines:
    """The lines of one request. `item_timeout_seconds` is named in the text of a time-out."""

    def __init__(self, request_id: str, item_timeout_seconds: float) -> None:
        self._request_id = one_line_json(request_id)
        self._item_timeout_seconds = item_timeout_seconds
        self._prefixes: dict[tuple[str | None, Channel], bytes] = {}

    def token(self, agent_name: str | None, channel: Channel, text: str) -> bytes:
        """One piece of visible text; there is no line for an empty one."""
        prefix = self._prefixes.get((agent_name, channel))
        if prefix is None:
            prefix = self._opening(agent_name) + one_line_json({_TOKEN_VARIANT[channel]: None})[: -len(b"null}")]
            self._prefixes[agent_name, channel] = prefix
        return b"%b%b}}}}\n" % (prefix, one_line_json(text))

    def done(
        self, agent_name: str | None, finish_reason: FinishReason, usage: Usage, matched_stop: str | int | None = None
    ) -> bytes:
        """The last line of a stream that went well. `finish_reason` and `matched_stop` are ours."""
        payload = {"usage": usage_counters(usage), "finish_reason": finish_reason.value, "matched_stop": matched_stop}
        return self._variant(agent_name, "Done", payload)

    def end(
        self,
        agent_name: str | None,
        finish_reason: FinishReason | None,
        usage: Usage,
        failure: Failure | None,
        matched_stop: str | int | None = None,
    ) -> bytes:
        """The last line of any stream: `Done`, a terminal variant, or an `Error`."""
        if failure is not None:
            return self.failure(agent_name, failure)
        if finish_reason is None or finish_reason is FinishReason.CANCELLED:
            return self._error(*ENDED_WITHOUT_TERMINAL)
        return self.done(agent_name, finish_reason, usage, matched_stop)

    def failure(self, agent_name: str | None, failure: Failure) -> bytes:
        """The last line of a stream that failed."""
        row = row_of(failure.kind)
        text = text_of(failure, item_timeout_seconds=self._item_timeout_seconds)
        if row.native_variant is not None:
            return self._variant(agent_name, row.native_variant, text)
        return self._error(row.status, text)

    def _opening(self, agent_name: str | None) -> bytes:
        name = one_line_json(agent_name)
        head = b'{"Response":{"generated_by":%b,"request_id":%b,"response":{"GeneratedToken":'
        return head % (name, self._request_id)

    def _variant(self, agent_name: str | None, variant: str, payload: Any) -> bytes:
        return b"%b%b}}}\n" % (self._opening(agent_name), one_line_json({variant: payload}))

    def _error(self, code: int, description: str) -> bytes:
        error = one_line_json({"code": code, "description": description})
        return b'{"Error":{"request_id":%b,"error":%b}}\n' % (self._request_id, error)


def usage_counters(usage: Usage) -> dict[str, int]:
    """Paddler's eight counters in its order. Images and audio are not read here, so theirs are 0."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "cached_prompt_tokens": usage.cached_prompt_tokens,
        "input_image_tokens": 0,
        "input_audio_tokens": 0,
        "content_tokens": usage.content_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "tool_call_tokens": usage.tool_call_tokens,
        "undeterminable_tokens": usage.undeterminable_tokens,
    }
