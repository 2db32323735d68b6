"""What the engine tells, in items that the wire takes."""

from agent.core.events import PromptLogprobs, PromptProgress, TokensCommitted
from agent.token_items import ECHO_CHARACTERS, echo_items, token_items
from shared.generation import Channel
from shared.logprobs import MAX_PACKED_BYTES, LogprobEntry, LogprobPlace, unpack_places
from shared.messages_from_agent import TokenItem

PLACE = LogprobPlace(LogprobEntry(5, -0.5, b"x" * 255), tuple(LogprobEntry(i, -1.0, b"y" * 255) for i in range(84)))


def test_tokens_without_logprobs_carry_none() -> None:
    event = TokensCommitted("k", 3, (9,), "t", Channel.CONTENT)
    assert list(token_items(1, 2, event)) == [TokenItem(1, 2, 3, (9,), "t", Channel.CONTENT, None)]


def test_a_token_carries_its_place() -> None:
    (item,) = token_items(1, 2, TokensCommitted("k", 3, (9,), "t", Channel.CONTENT, PLACE))
    assert item.logprobs is not None
    assert unpack_places(item.logprobs) == (PLACE,)


def test_a_prompts_places_come_in_order_in_items_that_fit() -> None:
    places = tuple(PLACE._replace(token=LogprobEntry(index, -0.5)) for index in range(40))
    items = list(token_items(1, 2, PromptLogprobs("k", places)))
    assert len(items) > 1
    assert all(item.logprobs and len(item.logprobs) <= MAX_PACKED_BYTES for item in items)
    assert all((item.token_ids, item.text) == ((), "") for item in items)
    assert tuple(place for item in items for place in unpack_places(item.logprobs or b"")) == places


def test_progress_is_an_empty_item() -> None:
    assert list(token_items(1, 2, PromptProgress("k", 7))) == [TokenItem(1, 2, 0, (), "", Channel.CONTENT)]


def test_an_echo_comes_in_pieces() -> None:
    text = "é" * (2 * ECHO_CHARACTERS + 1)
    items = list(echo_items(1, 2, text))
    assert [len(item.text) for item in items] == [ECHO_CHARACTERS, ECHO_CHARACTERS, 1]
    assert "".join(item.text for item in items) == text
    assert list(echo_items(1, 2, "")) == []
