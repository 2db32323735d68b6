"""Clients that leave, or stop reading: noticed at once, and nobody else does."""

from collections.abc import Callable

import pytest

from shared.failures import Failure, FailureKind
from tests.support.conditions import wait_until
from tests.support.inference_service import BODY, PATH, InferenceService, post_head, variant
from tests.support.raw_http import AnswerBroken, RawConnection, documents
from tests.support.scripted_groups import ScriptedGroup

Leave = Callable[[RawConnection], None]
LARGE_TOKENS = 300
LARGE_TOKEN_CHARACTERS = (
    40_000  # times 300 is 12 MB; Linux holds about 4 MB for a sender, the rest waits in the balancer
)


async def give_more_than_sockets_hold(group: ScriptedGroup) -> None:
    """Returns when the route has taken all of it, so that it waits for its client."""
    for number in range(LARGE_TOKENS):
        group.give(f"{number}".ljust(LARGE_TOKEN_CHARACTERS))
    await wait_until(lambda: not group.streams[0].pending_bytes)


LEAVES: dict[str, Leave] = {
    "closes": RawConnection.close,
    "resets": RawConnection.reset,
    "half-closes": RawConnection.half_close,
}


@pytest.mark.parametrize("how", LEAVES)
async def test_a_client_that_leaves_while_it_waits_is_noticed_at_once(service: InferenceService, how: str) -> None:
    async with service.connect() as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await client.read_head()
        LEAVES[how](client)
        await group.wait_left()


@pytest.mark.parametrize("how", LEAVES)
async def test_a_client_that_leaves_between_tokens_is_noticed_at_once(service: InferenceService, how: str) -> None:
    async with service.connect() as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await client.read_head()
        group.give("a")
        await client.read_chunk()
        assert not group.has_left.is_set()
        LEAVES[how](client)
        await group.wait_left()


@pytest.mark.parametrize("how", LEAVES)
async def test_a_client_that_leaves_without_having_read_its_answer_is_noticed(
    service: InferenceService, how: str
) -> None:
    async with service.connect(receive_buffer_bytes=65536) as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await give_more_than_sockets_hold(group)
        LEAVES[how](client)
        await group.wait_left()


async def test_a_client_that_leaves_inside_its_body_opens_nothing(service: InferenceService) -> None:
    async with service.connect() as client:
        await client.send(post_head("Content-Length: 100") + b"{")
        client.half_close()
        assert await client.read_to_end() == b""
    assert service.groups.opened == []


async def test_a_client_that_reads_nothing_is_cut_off_and_its_group_left(service: InferenceService) -> None:
    async with service.connect(receive_buffer_bytes=65536) as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await give_more_than_sockets_hold(group)
        group.finish()
        await group.wait_left()
        with pytest.raises(AnswerBroken):
            await client.read_answer()


async def test_a_client_that_reads_late_misses_nothing(service: InferenceService) -> None:
    async with service.connect(receive_buffer_bytes=65536) as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await give_more_than_sockets_hold(group)
        group.finish()
        answer = await client.read_answer()
    lines = documents(answer.body)
    assert [variant(line)["ContentToken"].strip() for line in lines[:-1]] == [
        str(number) for number in range(LARGE_TOKENS)
    ]
    assert "Done" in variant(lines[-1])


async def test_an_answer_over_its_bound_is_broken_off_and_never_looks_whole(service: InferenceService) -> None:
    async with service.connect() as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await client.read_head()
        group.fail(Failure(FailureKind.SLOW_CONSUMER, ""))
        with pytest.raises(AnswerBroken):
            await client.read_chunk()
        await group.wait_left()


async def test_a_client_that_is_stuck_in_a_write_is_cut_off_as_soon_as_it_is_too_slow(
    service: InferenceService,
) -> None:
    async with service.connect(receive_buffer_bytes=65536) as client:
        await client.post(PATH, BODY)
        group = await service.groups.wait_opened()
        await give_more_than_sockets_hold(group)
        group.opened.abort()
        await group.wait_left()
        with pytest.raises(AnswerBroken):
            await client.read_answer()
