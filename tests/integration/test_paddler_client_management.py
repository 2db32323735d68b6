"""Paddler's official Python client against our management service, unchanged."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from paddler_client.agent_desired_model import AgentDesiredModel
from paddler_client.balancer_desired_state import BalancerDesiredState
from paddler_client.chat_template import ChatTemplate
from paddler_client.client_management import ClientManagement
from paddler_client.error import HttpError

from balancer.desired_state_store import InMemoryDesiredStateStore
from shared.agent_status import AgentIssue, IssueKind
from tests.support.fleet_snapshots import Agent, Statistics, status
from tests.support.management_service import ManagementService, management_service

DEADLINE_SECONDS = 20.0


@pytest.fixture
async def service() -> AsyncIterator[ManagementService]:
    async with management_service(InMemoryDesiredStateStore()) as started:
        yield started


@pytest.fixture
async def client(service: ManagementService) -> AsyncIterator[Any]:
    async with ClientManagement(service.url) as made:
        yield made


async def next_of(stream: Any) -> Any:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await anext(stream)


async def test_health_and_metrics(client: Any) -> None:
    assert await client.get_health() == "OK"
    assert "paddler_slots_total 0" in await client.get_metrics()


async def test_agents_with_their_issues(service: ManagementService, client: Any) -> None:
    issues = [
        AgentIssue(kind=IssueKind.MODEL_FILE_DOES_NOT_EXIST, model_path="/missing.gguf"),
        AgentIssue(kind=IssueKind.SLOT_CANNOT_START, slot_index=0, detail="no memory"),
        AgentIssue(kind=IssueKind.CHAT_TEMPLATE_DOES_NOT_COMPILE, model_path="/a.gguf", detail="line 1"),
    ]
    service.switchboard.show(Agent(slots_processing=2, status=status(issues=issues)))
    (agent,) = (await client.get_agents()).agents
    assert (agent.name, agent.slots_processing, agent.slots_total) == ("agent-a", 2, 4)
    assert {issue.variant for issue in agent.issues} == {
        "ModelFileDoesNotExist",
        "SlotCannotStart",
        "ChatTemplateDoesNotCompile",
    }


async def test_the_desired_state_goes_in_and_comes_back(client: Any) -> None:
    default = await client.get_balancer_desired_state()
    assert default == BalancerDesiredState()
    for wanted in (
        BalancerDesiredState(model=AgentDesiredModel.local_to_agent("/models/tiny.gguf")),
        BalancerDesiredState(
            model=AgentDesiredModel.local_to_agent("/models/tiny.gguf"),
            chat_template_override=ChatTemplate(content="{{ messages[0].content }}"),
            use_chat_template_override=True,
        ),
        BalancerDesiredState(),
    ):
        await client.put_balancer_desired_state(wanted)
        assert await client.get_balancer_desired_state() == wanted


async def test_a_wrong_state_is_an_error_that_says_why(client: Any) -> None:
    wrong = BalancerDesiredState()
    wrong.inference_parameters.n_batch = 0
    with pytest.raises(HttpError) as refused:
        await client.put_balancer_desired_state(wrong)
    assert "inference_parameters.n_batch: must be at least 1" in str(refused.value)


async def test_streams_show_each_change(service: ManagementService, client: Any) -> None:
    agents, buffered = client.agents_stream(), client.buffered_requests_stream()
    assert (await next_of(agents)).agents == []
    assert (await next_of(buffered)).buffered_requests_current == 0
    service.switchboard.show(Agent())
    assert len((await next_of(agents)).agents) == 1
    service.switchboard.count(Statistics(requests_buffered=2))
    assert (await next_of(buffered)).buffered_requests_current == 2
    await agents.aclose()
    await buffered.aclose()


async def test_questions_to_agents(service: ManagementService, client: Any) -> None:
    service.switchboard.metadata = {"a": {"general.name": "Tiny"}, "b": None}
    service.switchboard.overrides = {"a": "{{ messages }}", "b": None}
    assert (await client.get_model_metadata("a")).metadata == {"general.name": "Tiny"}
    assert await client.get_model_metadata("b") is None
    assert (await client.get_chat_template_override("a")).content == "{{ messages }}"
    assert await client.get_chat_template_override("b") is None
    with pytest.raises(HttpError):
        await client.get_model_metadata("unknown")
