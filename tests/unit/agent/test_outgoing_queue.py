"""What waits for a slow link: order kept, frames merged, tokens never, everything bounded."""

from agent.outgoing_queue import MAX_FRAME_BYTES, MAX_FRAME_ITEMS, MAX_PENDING_BYTES, OutgoingQueue
from shared.generation import Channel, FinishReason, Usage
from shared.messages_from_agent import (
    Accepted,
    MemberEnd,
    MessageFromAgent,
    ModelMetadata,
    StatusUpdate,
    TokenFrame,
    TokenItem,
)
from tests.support.agent_statuses import agent_status


def item(index: int, text: str = "x") -> TokenItem:
    return TokenItem(1, 0, index, (index,), text, Channel.CONTENT)


def frame(*items: TokenItem, ends: tuple[MemberEnd, ...] = ()) -> TokenFrame:
    return TokenFrame(items, ends)


def status(version: int) -> StatusUpdate:
    return StatusUpdate(status=agent_status(status_version=version))


def drain(queue: OutgoingQueue) -> list[MessageFromAgent]:
    taken = []
    while (message := queue.take()) is not None:
        taken.append(message)
    assert queue.is_empty
    return taken


END = MemberEnd(1, 0, FinishReason.STOP, Usage(), None)


def test_neighbouring_frames_become_one_with_every_item_in_order() -> None:
    queue = OutgoingQueue()
    queue.put(frame(item(0)))
    queue.put(frame(item(1), item(2)))
    queue.put(frame(ends=(END,)))
    assert drain(queue) == [frame(item(0), item(1), item(2), ends=(END,))]


def test_what_was_queued_before_a_frame_leaves_before_it() -> None:
    queue = OutgoingQueue()
    accepted = Accepted(member=2, attempt=0, prompt_tokens=1)
    queue.put(frame(item(0)))
    queue.put(accepted)
    queue.put(frame(item(1)))
    assert drain(queue) == [frame(item(0)), accepted, frame(item(1))]


def test_only_the_newest_status_leaves() -> None:
    queue = OutgoingQueue()
    for version in range(100):
        queue.put(status(version))
    queue.put(frame(item(0)))
    assert drain(queue) == [status(99), frame(item(0))]


def test_a_merged_frame_is_bounded() -> None:
    queue = OutgoingQueue()
    for index in range(MAX_FRAME_ITEMS + 10):
        queue.put(frame(item(index)))
    frames = drain(queue)
    sizes = [len(one.items) for one in frames if isinstance(one, TokenFrame)]
    assert sum(sizes) == MAX_FRAME_ITEMS + 10
    assert max(sizes) <= MAX_FRAME_ITEMS
    long = OutgoingQueue()
    for index in range(10):
        long.put(frame(item(index, "y" * 100_000)))
    assert len(drain(long)) == 10


def test_the_bound_counts_what_waits_and_nothing_else() -> None:
    queue = OutgoingQueue()
    pieces = MAX_PENDING_BYTES // 400_000
    for _ in range(3):
        for index in range(pieces):
            queue.put(frame(item(index, "y" * 100_000)))
        assert not queue.is_over_bound
        drain(queue)
    for index in range(pieces + 1):
        queue.put(frame(item(index, "y" * 100_000)))
    assert queue.is_over_bound


def test_a_models_metadata_counts_with_its_length() -> None:
    queue = OutgoingQueue()
    for query in range(3):
        queue.put(ModelMetadata(query=query, metadata={"template": "z" * 8_000_000}))
    assert queue.is_over_bound


def test_log_probabilities_and_what_stopped_an_answer_count_with_their_length() -> None:
    queue = OutgoingQueue()
    packed = b"x" * (MAX_FRAME_BYTES // 3)
    for index in range(6):
        queue.put(frame(item(index)._replace(logprobs=packed)))
    assert [len(message.items) for message in drain(queue) if isinstance(message, TokenFrame)] == [2, 2, 2]
    queue.put(frame(ends=(END._replace(matched_stop="y" * (MAX_PENDING_BYTES // 4 + 1)),)))
    assert queue.is_over_bound
