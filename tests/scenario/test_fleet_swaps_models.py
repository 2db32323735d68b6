"""Case C30 over the whole system: asking for another model kills nothing, loads only what is wanted, and frees."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.running_fleet import COUNTING, Json, RunningFleet, desired_state
from tests.support.tiny_model import CHAT_TEMPLATE, TinyModel, demo_model_path, tiny_model_path

MIBIBYTE = 1 << 20
LOADED = "prompts are read in chunks of"  # the agent's log says so once a load

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def fleet(shared_fleet: RunningFleet) -> RunningFleet:
    return shared_fleet


@pytest.fixture
async def idle_fleet(fleet: RunningFleet) -> AsyncIterator[RunningFleet]:
    """Serves the demo model. Idle before and after."""
    fleet.serve(demo_model_path())
    yield fleet
    await fleet.wait_idle()


@pytest.fixture
def tiny(fleet: RunningFleet) -> Path:
    return tiny_model_path(fleet.folder, TinyModel(chat_template=CHAT_TEMPLATE))


def loads(fleet: RunningFleet) -> int:
    return fleet.agents[0].log.count(LOADED)


async def serve(fleet: RunningFleet, document: Json) -> Json:
    """PUT and wait until it is applied; the agent's view."""
    revision = await asyncio.to_thread(fleet.put, document)
    agents = await asyncio.to_thread(fleet.wait_agents, lambda agent: agent["applied_revision"] == revision)
    return agents[0]


async def test_a_stream_ends_on_the_old_model_and_the_next_request_runs_on_the_new(
    idle_fleet: RunningFleet, tiny: Path
) -> None:
    fleet = idle_fleet
    undisturbed = " " + ", ".join(str(number) for number in range(9, 100))
    async with fleet.client(COUNTING, 150) as running:
        await running.read_pieces(1)
        revision = await asyncio.to_thread(fleet.put, desired_state(tiny))
        # While the new model's file is looked at, the old one takes requests; from then on they wait.
        await asyncio.to_thread(fleet.wait_agents, lambda agent: agent["swap_phase"] == "draining")
        async with fleet.client("??", 8) as following:
            await fleet.wait_gauges(requests_buffered=1)
            counted = await running.read_all()
            assert counted.usage["content_tokens"] == 150
            assert undisturbed.startswith(counted.text)
            answer = await following.read_all()
    assert answer.usage["prompt_tokens"] == 3, "not the tiny model, which puts a BOS before the two"
    assert fleet.agent()["applied_revision"] == revision
    assert answer.pieces == (await fleet.ask("??", 8)).pieces


async def test_only_the_last_of_several_states_is_loaded(idle_fleet: RunningFleet, tiny: Path) -> None:
    """A running request keeps the first change from happening; by then it is not wanted any more."""
    fleet = idle_fleet
    before = loads(fleet)
    async with fleet.client(COUNTING, 900) as running:
        await running.read_pieces(1)
        for document in (desired_state(tiny), desired_state(demo_model_path(), n_batch=64), desired_state(tiny)):
            await asyncio.to_thread(fleet.put, document)
        agent = asyncio.create_task(serve(fleet, desired_state(demo_model_path())))
        async with fleet.client(COUNTING, 4) as following:
            assert (await following.read_all()).text == " 9, "
        await running.read_pieces(1)  # it was not touched by all this
    assert (await agent)["model_path"] == str(demo_model_path())
    assert loads(fleet) == before, "a state that nobody wanted any more was loaded"


async def test_an_identical_state_and_a_change_of_sampling_load_nothing(idle_fleet: RunningFleet) -> None:
    fleet = idle_fleet
    before = loads(fleet)
    greedy = await fleet.ask("The weather is", 12)
    for _ in range(2):
        await serve(fleet, desired_state(demo_model_path()))
    await serve(fleet, desired_state(demo_model_path(), temperature=8.0, top_k=0, top_p=1.0, min_p=0.0))
    assert (await fleet.ask("The weather is", 12)).text != greedy.text
    await serve(fleet, desired_state(demo_model_path()))
    again = await fleet.ask("The weather is", 12)
    assert again.text == greedy.text
    assert again.usage["cached_prompt_tokens"] == again.usage["prompt_tokens"] - 1
    assert loads(fleet) == before


async def test_a_missing_file_is_an_issue_while_the_old_model_serves_and_its_coming_repairs_it(
    idle_fleet: RunningFleet, tiny: Path
) -> None:
    fleet = idle_fleet
    later = fleet.folder / "later.gguf"
    revision = await asyncio.to_thread(fleet.put, desired_state(later))
    (agent,) = await asyncio.to_thread(fleet.wait_agents, lambda agent: bool(agent["issues"]))
    assert [(one["kind"], one["model_path"]) for one in agent["issues"]] == [("ModelFileDoesNotExist", str(later))]
    assert agent["accepting"]
    assert agent["applied_revision"] < revision
    assert (await fleet.ask(COUNTING, 4)).text == " 9, "
    (listed,) = fleet.get("/api/v1/agents")["agents"]
    assert listed["issues"] == [{"ModelFileDoesNotExist": {"model_path": str(later)}}]
    shutil.copy(tiny, fleet.folder / "unfinished")
    (fleet.folder / "unfinished").rename(later)
    applied = await asyncio.to_thread(fleet.wait_agents, lambda agent: agent["applied_revision"] == revision)
    assert applied[0]["issues"] == []
    assert (await fleet.ask("??", 1)).usage["prompt_tokens"] == 3


async def test_an_agent_without_a_model_has_no_slots_until_a_good_state_comes(idle_fleet: RunningFleet) -> None:
    fleet = idle_fleet
    await serve(fleet, desired_state("None"))
    await asyncio.to_thread(fleet.put, desired_state(fleet.folder / "nowhere.gguf"))
    (agent,) = await asyncio.to_thread(fleet.wait_agents, lambda agent: bool(agent["issues"]))
    assert (agent["slots_total"], agent["accepting"]) == (0, False)
    assert fleet.request("GET", "/ready")[0] == 503
    async with fleet.client(COUNTING, 4) as waiting:
        await fleet.wait_gauges(requests_buffered=1)
        assert (await serve(fleet, desired_state(demo_model_path())))["issues"] == []
        assert (await waiting.read_all()).text == " 9, "


async def test_after_five_swaps_the_agent_holds_one_models_memory(idle_fleet: RunningFleet, tiny: Path) -> None:
    """The demo model's weights are 98 MB: one that stayed would show."""
    fleet = idle_fleet
    sizes = []
    for model in (tiny, demo_model_path(), tiny, demo_model_path(), tiny):
        await serve(fleet, desired_state(model))
        await fleet.ask("1, 2,", 2)
        sizes.append(fleet.agents[0].resident_bytes // MIBIBYTE)
    assert max(sizes[2], sizes[4]) - sizes[0] < 40, sizes
    assert sizes[3] - sizes[1] < 40, sizes
