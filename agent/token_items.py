"""From what the engine tells to what travels: token items, each small enough for the wire."""

from collections.abc import Iterator, Sequence

from agent.core.events import PromptLogprobs, PromptProgress, TokensCommitted
from shared.generation import Channel
from shared.logprobs import MAX_PACKED_BYTES, LogprobPlace, pack_places
from shared.messages_from_agent import TokenItem

ECHO_CHARACTERS = 65_536
"""Of the prompt's text in one item."""

Told = TokensCommitted | PromptLogprobs | PromptProgress


def token_items(member: int, attempt: int, event: Told) -> Iterator[TokenItem]:
    """One item, or for log-probabilities of a prompt as many as it takes."""
    match event:
        case TokensCommitted():
            packed = None if event.logprobs is None else pack_places((event.logprobs,))
            yield TokenItem(
                member, attempt, event.first_token_index, event.token_ids, event.text, event.channel, packed
            )
        case PromptLogprobs(_, places):
            for packed in _packed(places):
                yield TokenItem(member, attempt, 0, (), "", Channel.CONTENT, packed)
        case PromptProgress():
            yield TokenItem(member, attempt, 0, (), "", Channel.CONTENT)


def echo_items(member: int, attempt: int, text: str) -> Iterator[TokenItem]:
    """The prompt's text, before anything else."""
    for start in range(0, len(text), ECHO_CHARACTERS):
        yield TokenItem(member, attempt, 0, (), text[start : start + ECHO_CHARACTERS], Channel.CONTENT)


def _packed(places: Sequence[LogprobPlace]) -> Iterator[bytes]:
    """One place has at most 85 entries of 264 bytes, so it always fits."""
    packed = b""
    for place in places:
        one = pack_places((place,))
        if packed and len(packed) + len(one) > MAX_PACKED_BYTES:
            yield packed
            packed = b""
        packed += one
    if packed:
        yield packed
