"""What `/v1/completions` answers: the seed's shape exactly, whole or as chunks of server-sent events. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from balancer.compat_errors import CompatError, openai_error
from balancer.completions_body import CompletionBody
from balancer.completions_dialect import logprob_start
from balancer.completions_prompts import unpack
from balancer.logprob_shapes import OpenAiLogprobs, meta_info
from balancer.native_dialect import one_line_json
from balancer.response_stream import Ended, StreamEvent, Tokens
from shared.generation import Usage
from shared.logprobs import LogprobPlace, unpack_places

Json = dict[str, Any]

DONE: Final = b"data: [DONE]\n\n"
COMMENT: Final = b": still here\n\n"
"""Keeps proxies from giving up on a quiet stream."""

LONG_PACKED_BYTES: Final = 64 * 1024
"""Of log-probabilities. To shape so many takes some 20 ms."""


def sse_data(document: Json) -> bytes:
    """One data-only event."""
    return b"data: %b\n\n" % one_line_json(document)


@dataclass(slots=True)
class _Piece:
    """What some events brought of one choice. Log-probabilities stay packed until they are told: read, they take ten
    times the room. `echoed_characters`: of text before the first token."""

    texts: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    packed_prompt_places: list[bytes] = field(default_factory=list)
    packed_places: list[bytes] = field(default_factory=list)
    echoed_characters: int = 0
    ended: Ended | None = None

    def take(self, events: Sequence[StreamEvent]) -> None:
        for event in events:
            if isinstance(event, Ended):
                self.ended = event
            elif isinstance(event, Tokens):
                item = event.item
                self.texts.append(item.text)
                self.token_ids += item.token_ids
                if not self.token_ids:
                    self.echoed_characters += len(item.text)
                if item.logprobs is not None:
                    (self.packed_places if item.token_ids else self.packed_prompt_places).append(item.logprobs)

    @property
    def packed_bytes(self) -> int:
        """Of its log-probabilities."""
        return sum(map(len, self.packed_places)) + sum(map(len, self.packed_prompt_places))


def _places(packed: Sequence[bytes]) -> list[LogprobPlace]:
    return [place for one in packed for place in unpack_places(one)]


class CompletionAnswers:
    """The answer to one request. `created`: Unix seconds; `prompts` and choices in the order of the request."""

    keep_alive: Final = COMMENT

    def __init__(self, body: CompletionBody, answer_id: str, created: int) -> None:
        self._body = body
        self._starts = logprob_start(body)
        count = len(body.prompt) * body.n
        self._openai = [OpenAiLogprobs(body.logprobs or 0) for _ in range(count)]
        self._has_begun = [False] * count
        self._prompt_places_told = [0] * count
        self._usages = [Usage()] * count
        self._kept = [_Piece() for _ in range(count)]
        self._head: Json = {
            "id": answer_id,
            "object": "text_completion",
            "created": created,
            "model": body.model,
        }

    def keep(self, index: int, events: Sequence[StreamEvent]) -> None:
        """For a whole answer: what came of one choice."""
        self._kept[index].take(events)

    @property
    def is_long(self) -> bool:
        """Whether `whole` takes so long that nothing else should wait for it."""
        return sum(piece.packed_bytes for piece in self._kept) > LONG_PACKED_BYTES

    def whole(self) -> Json:
        """The whole answer, once every choice has ended well. Raises ValueError as `chunk` does."""
        choices = [self._choice(index, piece) for index, piece in enumerate(self._kept)]
        return {**self._head, "choices": choices, "usage": self.usage()}

    def chunk(self, index: int, events: Sequence[StreamEvent]) -> bytes | None:
        """One event of the stream for what one choice brought; None when that is nothing that a client asked for.

        Raises ValueError when an agent's log-probabilities cannot be read.
        """
        piece = _Piece()
        piece.take(events)
        is_told = piece.ended is not None or any(piece.texts)
        is_told |= self._body.return_token_ids and bool(piece.token_ids)
        is_told |= bool(piece.packed_places or piece.packed_prompt_places)
        if not is_told:
            return None
        return sse_data({**self._head, "choices": [self._choice(index, piece)], "usage": None})

    def last_events(self) -> list[bytes]:
        """What ends a stream that went well: usage when it was asked for, then `[DONE]`."""
        options = self._body.stream_options
        if options is None or not options.include_usage:
            return [DONE]
        return [sse_data({**self._head, "choices": [], "usage": self.usage()}), DONE]

    def error_events(self, error: CompatError) -> list[bytes]:
        """What ends a stream that failed: one object, and no `[DONE]`."""
        return [sse_data(openai_error(error))]

    def usage(self) -> Json:
        """Each prompt once, every answer; a prompt's cached tokens are those of its first choice."""
        firsts = self._usages[:: self._body.n]
        prompt_tokens = sum(usage.prompt_tokens for usage in firsts)
        completion_tokens = sum(usage.completion_tokens for usage in self._usages)
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": sum(usage.cached_prompt_tokens for usage in firsts)},
            "reasoning_tokens": sum(usage.reasoning_tokens for usage in self._usages),
        }

    def _choice(self, index: int, piece: _Piece) -> Json:
        body, ended = self._body, piece.ended
        prompt_places, places = _places(piece.packed_prompt_places), _places(piece.packed_places)
        if ended is not None:
            self._usages[index] = ended.usage
        reason = None if ended is None or ended.finish_reason is None else ended.finish_reason.value
        choice: Json = {
            "index": index,
            "text": "".join(piece.texts),
            "logprobs": self._logprobs(index, piece, prompt_places, places),
            "finish_reason": reason,
            "matched_stop": None if ended is None else ended.matched_stop,
        }
        if body.return_logprob:
            choice["meta_info"] = meta_info(
                self._prompt_places(index, prompt_places, self._starts[1]),
                places,
                top_count=body.top_logprobs_num,
                with_text=body.return_text_in_logprobs,
            )
        if body.return_token_ids:
            choice["token_ids"] = piece.token_ids
            if not self._has_begun[index]:
                prompt = body.prompt[index // body.n]
                choice["prompt_token_ids"] = None if isinstance(prompt, str) else unpack(prompt.packed)
        self._has_begun[index] = True
        self._prompt_places_told[index] += len(prompt_places)
        return choice

    def _logprobs(
        self, index: int, piece: _Piece, prompt_places: list[LogprobPlace], places: list[LogprobPlace]
    ) -> Json | None:
        if self._body.logprobs is None:
            return None
        if self._body.echo and self._starts[0] < 0:
            self._openai[index].skip(piece.echoed_characters)
        return self._openai[index].shape([*self._prompt_places(index, prompt_places, self._starts[0]), *places])

    def _prompt_places(self, index: int, places: list[LogprobPlace], start: int) -> list[LogprobPlace]:
        """The agent tells of the prompt from the lesser of both shapes' starts on; each has its own."""
        if start < 0:
            return []
        first = min(one for one in self._starts if one >= 0)
        return places[max(0, start - first - self._prompt_places_told[index]) :]
