"""The token frame: fixed-length arrays, packed and checked by hand because this is the hot path of the relay.

Structure: `[items, ends]`;
item `[member, attempt, first_token_index, [token ids], text, channel]`, and packed log-probabilities as a seventh when
they were asked for;
end `[member, attempt, finish_reason | nil, [6 usage counters], failure kind | nil, message | nil,
parameter | nil, matched stop | nil]`.
"""

from typing import Any, Final

from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason, Usage
from shared.generation_options import MAX_STOP_CHARACTERS
from shared.logprobs import MAX_PACKED_BYTES
from shared.messages_from_agent import MemberEnd, TokenFrame, TokenItem
from shared.wire_errors import CLOSE_POLICY, WireError

MAX_FAILURE_CHARACTERS: Final = 8192
MAX_ITEM_CHARACTERS: Final = 1024 * 1024

_CHANNELS: Final = tuple(Channel)
_CHANNEL_NUMBERS: Final = {channel: number for number, channel in enumerate(_CHANNELS)}
_FINISH_REASONS: Final = {reason.value: reason for reason in FinishReason}
_FAILURE_KINDS: Final = {kind.value: kind for kind in FailureKind}
_USAGE_FIELDS: Final = 6
_FIELDS_WITH_LOGPROBS: Final = 7


def pack_token_frame(frame: TokenFrame) -> list[Any]:
    """The frame as plain lists."""
    numbers = _CHANNEL_NUMBERS
    items = [
        (member, attempt, first_token_index, token_ids, text, numbers[channel])
        if logprobs is None
        else (member, attempt, first_token_index, token_ids, text, numbers[channel], logprobs)
        for member, attempt, first_token_index, token_ids, text, channel, logprobs in frame.items
    ]
    return [items, [_pack_end(end) for end in frame.ends]]


def _pack_end(end: MemberEnd) -> tuple[Any, ...]:
    usage, failure = end.usage, end.failure
    counters = (
        usage.prompt_tokens,
        usage.cached_prompt_tokens,
        usage.content_tokens,
        usage.reasoning_tokens,
        usage.tool_call_tokens,
        usage.undeterminable_tokens,
    )
    reason = end.finish_reason.value if end.finish_reason else None
    if failure is None:
        return end.member, end.attempt, reason, counters, None, None, None, end.matched_stop
    message = failure.message[:MAX_FAILURE_CHARACTERS]
    return end.member, end.attempt, reason, counters, failure.kind.value, message, failure.parameter, None


def unpack_token_frame(structure: Any) -> TokenFrame:
    """Raises WireError unless every length, type and word is right."""
    try:
        items, ends = structure
        return TokenFrame(tuple(map(_unpack_item, items)), tuple(map(_unpack_end, ends)))
    except (TypeError, ValueError, KeyError, IndexError):
        raise WireError("a token frame has the wrong layout", CLOSE_POLICY) from None


def _unpack_item(item: list[Any]) -> TokenItem:
    logprobs = None
    if len(item) == _FIELDS_WITH_LOGPROBS:
        *item, logprobs = item
        if type(logprobs) is not bytes or len(logprobs) > MAX_PACKED_BYTES:
            raise ValueError
    member, attempt, first_token_index, token_ids, text, channel = item
    if type(text) is not str or len(text) > MAX_ITEM_CHARACTERS or type(token_ids) is not list:
        raise ValueError
    _check_counts((member, attempt, first_token_index, channel))
    _check_counts(token_ids)
    return TokenItem(member, attempt, first_token_index, tuple(token_ids), text, _CHANNELS[channel], logprobs)


def _unpack_end(end: list[Any]) -> MemberEnd:
    member, attempt, reason, counters, kind, message, parameter, matched_stop = end
    if len(counters) != _USAGE_FIELDS or (reason is None) == (kind is None):
        raise ValueError
    _check_counts((member, attempt))
    _check_counts(counters)
    failure = None
    if kind is not None:
        if type(message) is not str or (parameter is not None and type(parameter) is not str):
            raise ValueError
        failure = Failure(_FAILURE_KINDS[kind], message[:MAX_FAILURE_CHARACTERS], parameter)
    finish_reason = None if reason is None else _FINISH_REASONS[reason]
    _check_matched_stop(matched_stop)
    return MemberEnd(member, attempt, finish_reason, Usage(*counters), failure, matched_stop)


def _check_matched_stop(matched: Any) -> None:
    if type(matched) is str:
        if len(matched) > MAX_STOP_CHARACTERS:
            raise ValueError
    elif matched is not None:
        _check_counts((matched,))


def _check_counts(numbers: Any) -> None:
    for number in numbers:
        if type(number) is not int or number < 0:  # bool is an int to isinstance
            raise ValueError
