import asyncio

import pytest

from balancer.agent_queries import MAX_PENDING_PER_LINK, AgentQueries
from balancer.agent_questions import AgentDidNotAnswer, AgentGone
from shared.messages_from_agent import ModelMetadata
from shared.messages_to_agent import GetModelMetadata
from tests.support.switchboard_driver import RecordingLink


def question(number: int) -> GetModelMetadata:
    return GetModelMetadata(query=number)


async def test_an_answer_ends_only_its_own_question() -> None:
    queries, link = AgentQueries(10.0), RecordingLink()
    first, second = (asyncio.create_task(queries.ask(link, question)) for _ in range(2))
    await asyncio.sleep(0)
    numbers = [message.query for message in link.sent_of(GetModelMetadata)]
    assert queries.take_answer(link, ModelMetadata(query=numbers[1], metadata=None))
    assert (await second).query == numbers[1]
    assert not first.done()
    first.cancel()


async def test_an_answer_over_another_link_is_nobodys() -> None:
    queries, link = AgentQueries(10.0), RecordingLink()
    asked = asyncio.create_task(queries.ask(link, question))
    await asyncio.sleep(0)
    number = link.sent_of(GetModelMetadata)[0].query
    assert not queries.take_answer(RecordingLink(), ModelMetadata(query=number, metadata=None))
    queries.link_lost(RecordingLink())
    assert not asked.done()
    queries.link_lost(link)
    with pytest.raises(AgentGone):
        await asked


async def test_an_answer_that_comes_too_late_is_nobodys() -> None:
    queries, link = AgentQueries(0.001), RecordingLink()
    with pytest.raises(AgentDidNotAnswer, match=r"0\.001 s"):
        await queries.ask(link, question)
    number = link.sent_of(GetModelMetadata)[0].query
    assert not queries.take_answer(link, ModelMetadata(query=number, metadata=None))


async def test_questions_to_one_agent_are_bounded() -> None:
    queries, link = AgentQueries(10.0), RecordingLink()
    asked = [asyncio.create_task(queries.ask(link, question)) for _ in range(MAX_PENDING_PER_LINK)]
    await asyncio.sleep(0)
    with pytest.raises(AgentDidNotAnswer, match="already"):
        await queries.ask(link, question)
    queries.link_lost(link)
    assert len(await asyncio.gather(*asked, return_exceptions=True)) == MAX_PENDING_PER_LINK
