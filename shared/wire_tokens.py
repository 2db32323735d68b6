"""The token frame: fixed-length arrays, packed and checked by hand because this is the hot path of the relay.

Structure: `[items, ends]`;
item `[member, attempt, first_token_index, [token ids], text, channel]`;
end `[member, attempt, finish_reason | nil, [6 usage counters], failure kind | nil, message | nil,
parameter | nil]`.
"""

from typing import Any, Final

from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason, Usage
from shared.messages_from_agent import MemberEnd, TokenFrame, TokenItem
from shared.wire_errors import CLOSE_POLICY, WireError

MAX_FAILURE_CHARACTERS: Final = 8192
MAX_ITEM_CHARACTERS: Final = 1024 * 1024

_CHANNELS: Final = tuple(Channel)
_CHANNEL_NUMBERS: Final = {channel: number for number, channel in enumerate(_CHANNELS)}
_FINISH_REASONS: Final = {reason.value: reason for reason in FinishReason}
_FAILURE_KINDS: Final = {kind.value: kind for kind in FailureKind}
_USAGE_FIELDS: Final = 6


def pack_token_frame(frame: TokenFrame) -> list[Any]:
    """The frame as plain lists."""
    items = [
        (
            item.member,
            item.attempt,
            item.first_token_index,
            item.token_ids,
            item.text,
            _CHANNEL_NUMBERS[item.channel],
        )
        for item in frame.items
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
        return end.member, end.attempt, reason, counters, None, None, None
    message = failure.message[:MAX_FAILURE_CHARACTERS]
    return end.member, end.attempt, reason, counters, failure.kind.value, message, failure.parameter


def unpack_token_frame(structure: Any) -> TokenFrame:
    """Raises WireError unless every length, type and word is right."""
    try:
        items, ends = structure
        return TokenFrame(tuple(map(_unpack_item, items)), tuple(map(_unpack_end, ends)))
    except (TypeError, ValueError, KeyError, IndexError):
        raise WireError("a token frame has the wrong layout", CLOSE_POLICY) from None


def _unpack_item(item: list[Any]) -> TokenItem:
    member, attempt, first_token_index, token_ids, text, channel = item
    if type(text) is not str or len(text) > MAX_ITEM_CHARACTERS or type(token_ids) is not list:
        raise ValueError
    _check_counts((member, attempt, first_token_index, channel))
    _check_counts(token_ids)
    return TokenItem(member, attempt, first_token_index, tuple(token_ids), text, _CHANNELS[channel])


def _unpack_end(end: list[Any]) -> MemberEnd:
    member, attempt, reason, counters, kind, message, parameter = end
    if len(counters) != _USAGE_FIELDS or (reason is None) == (kind is None):
        raise ValueError
    _check_counts((member, attempt))
    _check_counts(counters)
    failure = None
    if kind is not None:
        if type(message) is not str or (parameter is not None and type(parameter) is not str):
            raise ValueError
        failure = Failure(_FAILURE_KINDS[kind], message[:MAX_FAILURE_CHARACTERS], parameter)
    return MemberEnd(member, attempt, None if reason is None else _FINISH_REASONS[reason], Usage(*counters), failure)


def _check_counts(numbers: Any) -> None:
    for number in numbers:
        if type(number) is not int or number < 0:  # bool is an int to isinstance
            raise ValueError
