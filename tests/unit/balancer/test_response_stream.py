import asyncio

import pytest

from balancer.response_stream import EVENT_OVERHEAD_BYTES, Accepted, Ended, PutOutcome, ResponseStream, Tokens, wait_any
from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason, Usage
from shared.identifiers import AgentId, GroupId, MemberId
from shared.messages_from_agent import TokenItem


def stream_on_agent(max_pending_bytes: int = 1024 * 1024) -> ResponseStream:
    stream = ResponseStream(GroupId(1), MemberId(2), 0, max_pending_bytes)
    stream.begin_attempt(1, AgentId("a"), "the agent", 0.0)
    return stream


def item(index: int, text: str = "x", ids: tuple[int, ...] | None = None) -> TokenItem:
    return TokenItem(2, 1, index, (index,) if ids is None else ids, text, Channel.CONTENT)


async def test_the_reader_gets_everything_that_is_there_in_order() -> None:
    stream = stream_on_agent()
    stream.put_accepted(9, 0.0)
    assert stream.put_item(item(0), 0.0) is PutOutcome.FIRST
    assert stream.put_item(item(1), 0.0) is PutOutcome.KEPT
    stream.end(FinishReason.STOP, Usage(content_tokens=2), None, 0.0)
    assert await stream.wait_events() == [
        Accepted(9, "the agent"),
        Tokens("the agent", item(0)),
        Tokens("the agent", item(1)),
        Ended("the agent", FinishReason.STOP, Usage(content_tokens=2), None),
    ]


def test_many_ids_without_text_count_against_the_bound() -> None:
    stream = stream_on_agent(max_pending_bytes=10_000)
    assert stream.put_item(item(0, "", tuple(range(200))), 0.0) is PutOutcome.FIRST
    assert stream.put_item(item(200, "", tuple(range(200))), 0.0) is PutOutcome.OVER_BOUND


async def test_a_piece_of_the_prompt_is_something_delivered_though_it_has_no_ids() -> None:
    stream = stream_on_agent()
    assert stream.put_item(item(0, "", ()), 0.0) is PutOutcome.KEPT  # a sign of life
    echo = item(0, "the prompt", ())
    places = TokenItem(2, 1, 0, (), "", Channel.CONTENT, b"packed")
    assert stream.put_item(echo, 0.0) is PutOutcome.FIRST
    assert stream.put_item(places, 0.0) is PutOutcome.FIRST
    assert stream.put_item(item(0), 0.0) is PutOutcome.FIRST
    held_back = item(1, "END", ())
    assert stream.put_item(held_back, 0.0) is PutOutcome.KEPT
    stream.end(FinishReason.STOP, Usage(), None, 0.0, "###")
    assert await stream.wait_events() == [
        *(Tokens("the agent", one) for one in (echo, places, item(0), held_back)),
        Ended("the agent", FinishReason.STOP, Usage(), None, "###"),
    ]


def test_log_probabilities_count_against_the_bound() -> None:
    stream = stream_on_agent(max_pending_bytes=10_000)
    places = TokenItem(2, 1, 0, (5,), "", Channel.CONTENT, b"x" * 10_000)
    assert stream.put_item(places, 0.0) is PutOutcome.OVER_BOUND


async def test_a_waiting_reader_is_woken_by_the_first_event() -> None:
    stream = stream_on_agent()
    reader = asyncio.create_task(stream.wait_events())
    await asyncio.sleep(0)
    assert not reader.done()
    stream.put_item(item(0), 0.0)
    stream.put_item(item(1), 0.0)
    assert len(await reader) == 2


async def test_cancelling_the_reader_loses_nothing() -> None:
    stream = stream_on_agent()
    reader = asyncio.create_task(stream.wait_events())
    await asyncio.sleep(0)
    stream.put_item(item(0), 0.0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert await stream.wait_events() == [Tokens("the agent", item(0))]


async def test_there_is_one_reader_until_it_leaves() -> None:
    stream = stream_on_agent()
    reader = asyncio.create_task(stream.wait_events())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError):
        await stream.wait_events()
    stream.close()
    with pytest.raises(RuntimeError):
        await reader


def test_the_end_comes_exactly_once() -> None:
    stream = stream_on_agent()
    stream.end(FinishReason.LENGTH, Usage(), None, 0.0)
    stream.end(None, Usage(), Failure(FailureKind.AGENT_LOST, "lost"), 0.0)
    assert stream.put_item(item(0), 0.0) is PutOutcome.DROPPED
    assert [type(event) for event in stream.take_nowait()] == [Ended]


def test_tokens_before_a_failure_are_still_read_except_by_who_was_too_slow_for_them() -> None:
    for kind, count in ((FailureKind.AGENT_LOST, 2), (FailureKind.SLOW_CONSUMER, 1)):
        stream = stream_on_agent()
        stream.put_item(item(0), 0.0)
        stream.end(None, Usage(), Failure(kind, ""), 0.0)
        assert len(stream.take_nowait()) == count


def test_it_is_bounded_in_bytes_and_reading_makes_room() -> None:
    stream = stream_on_agent(max_pending_bytes=2 * (EVENT_OVERHEAD_BYTES + 10))
    assert stream.put_item(item(0, "0123456789"), 0.0) is PutOutcome.FIRST
    assert stream.put_item(item(1, "0123456789"), 0.0) is PutOutcome.KEPT
    stream.take_nowait()
    assert stream.pending_bytes == 0
    assert stream.put_item(item(2, "0123456789"), 0.0) is PutOutcome.KEPT
    assert stream.put_item(item(3, "0123456789ab"), 0.0) is PutOutcome.OVER_BOUND


def test_text_beyond_ascii_counts_four_bytes_a_character() -> None:
    stream = stream_on_agent()
    stream.put_item(item(0, "é"), 0.0)
    assert stream.pending_bytes == EVENT_OVERHEAD_BYTES + 4


@pytest.mark.parametrize("bad", [item(0), item(2), item(1, ids=(2**31,))])
def test_a_repeated_a_missing_and_an_impossible_token_are_found(bad: TokenItem) -> None:
    stream = stream_on_agent()
    stream.put_item(item(0), 0.0)
    assert stream.put_item(bad, 0.0) is PutOutcome.OUT_OF_ORDER


def test_progress_is_a_sign_of_life_and_nothing_to_read() -> None:
    stream = stream_on_agent()
    assert stream.put_item(item(0, "", ids=()), 5.0) is PutOutcome.KEPT
    assert stream.last_item_at == 5.0
    assert stream.take_nowait() == []
    assert stream.put_item(item(0), 6.0) is PutOutcome.FIRST


def test_the_record_of_delivery_holds_ids_and_characters() -> None:
    stream = stream_on_agent()
    stream.put_item(item(0, "né", ids=(5, 6)), 0.0)
    stream.put_item(item(2, "", ids=(7,)), 0.0)
    assert (list(stream.token_ids), stream.delivered_characters) == ([5, 6, 7], 2)


def test_accepted_is_told_once_though_a_second_agent_accepts_again() -> None:
    stream = stream_on_agent()
    stream.put_accepted(9, 0.0)
    stream.leave_agent()
    stream.begin_attempt(2, AgentId("b"), "another", 1.0)
    stream.put_accepted(9, 1.0)
    assert stream.take_nowait() == [Accepted(9, "the agent")]


def test_it_knows_since_when_its_reader_is_behind() -> None:
    stream = stream_on_agent()
    seen = [stream.unread_since]
    for index, now in ((0, 3.0), (1, 4.0)):
        stream.put_item(item(index), now)
        seen.append(stream.unread_since)
    stream.take_nowait()
    assert [*seen, stream.unread_since] == [None, 3.0, 3.0, None]


def test_after_its_reader_left_it_keeps_nothing() -> None:
    stream = stream_on_agent()
    stream.put_item(item(0), 0.0)
    stream.close()
    assert stream.put_item(item(1), 1.0) is PutOutcome.DROPPED
    stream.end(FinishReason.STOP, Usage(), None, 1.0)
    assert (stream.take_nowait(), stream.last_item_at, len(stream.token_ids)) == ([], 1.0, 0)
    assert repr(stream) == "<ResponseStream member 2 closed | 0 tokens>"


async def test_one_reader_waits_for_several_streams() -> None:
    streams = [stream_on_agent() for _ in range(3)]
    waiting = asyncio.create_task(wait_any(streams))
    await asyncio.sleep(0)
    assert not waiting.done()
    with pytest.raises(RuntimeError):
        await wait_any(streams[:1])
    streams[1].put_item(item(0), 0.0)
    streams[2].put_item(item(0), 0.0)
    await waiting
    assert [stream.has_events for stream in streams] == [False, True, True]
    await wait_any(streams)  # at once
    assert streams[1].take_nowait() == [Tokens("the agent", item(0))]


async def test_cancelling_that_reader_loses_nothing_and_lets_another_in() -> None:
    streams = [stream_on_agent(), stream_on_agent()]
    waiting = asyncio.create_task(wait_any(streams))
    await asyncio.sleep(0)
    streams[0].put_item(item(0), 0.0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await streams[0].wait_events() == [Tokens("the agent", item(0))]
    reader = asyncio.create_task(streams[1].wait_events())
    await asyncio.sleep(0)
    streams[1].put_item(item(0), 0.0)
    assert await reader == [Tokens("the agent", item(0))]
