"""States that are valid and awkward serve; files that are no models are issues, each cleared by a good state."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gguf_bytes import PAIRS, TENSORS, GgufBytes, tensor, u32_pair
from tests.support.running_fleet import RunningFleet, desired_state, running_fleet
from tests.support.tiny_model import CHAT_TEMPLATE, TinyModel, tiny_model_path

SLOTS = 8
ANSWER_TOKENS = 40

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet"), "--buffered-request-timeout", "120s") as fleet:
        fleet.add_agent(slots=SLOTS)
        yield fleet


@pytest.fixture(scope="module")
def tiny(fleet: RunningFleet) -> Path:
    return tiny_model_path(fleet.folder, TinyModel(chat_template=CHAT_TEMPLATE))


@pytest.mark.parametrize(
    "parameters",
    [
        {"context_size": 64, "n_batch": 2048},
        {"context_size": 1024, "n_batch": 1},
        {"context_size": 512, "k_cache_dtype": "Q8_0", "v_cache_dtype": "Q8_0"},
        {"context_size": 512, "k_cache_dtype": "F16", "v_cache_dtype": "Q4_0"},
        {"context_size": 512, "penalty_last_n": -1, "penalty_repeat": 1.3, "temperature": 0.8},
    ],
    ids=str,
)
async def test_all_slots_serve_in_an_awkward_state(fleet: RunningFleet, tiny: Path, parameters: dict[str, Any]) -> None:
    """Of 64 tokens llama.cpp makes 256, and eight answers do not fit beside each other: some wait, none fails."""
    await asyncio.to_thread(fleet.serve, tiny, **parameters)
    answers = await asyncio.gather(*(fleet.ask("?" * (number + 2), ANSWER_TOKENS) for number in range(SLOTS)))
    assert [answer.usage["prompt_tokens"] for answer in answers] == [number + 3 for number in range(SLOTS)]
    lengths = [one.usage["content_tokens"] for one in answers if one.finish_reason == "length"]
    assert lengths == [ANSWER_TOKENS] * len(lengths) != []
    await fleet.wait_idle()


def broken_files(tiny: Path) -> dict[str, bytes]:
    """By what is wrong with them. The hostile ones make llama.cpp or a naive reader crash, hang or fill the memory."""
    whole = tiny.read_bytes()
    return {
        "truncated": whole[:-1000],
        "cut in its header": whole[:2000],
        "empty": b"",
        "foreign": b"PK\3\4" * 10_000,
        "of another version": GgufBytes(version=77).to_bytes(),
        "with more tensors than bytes": GgufBytes(tensor_count=2**60).to_bytes(),
        "with more pairs than bytes": GgufBytes(pair_count=2**60).to_bytes(),
        "with tensors that overlap": GgufBytes(tensors=(TENSORS[0], tensor("b.weight", (32,)))).to_bytes(),
        "with a tensor past its end": GgufBytes(tensors=(tensor("a.weight", (2**40, 2**20)),)).to_bytes(),
        "with a key twice": GgufBytes(pairs=(*PAIRS, u32_pair("llama.block_count", 3))).to_bytes(),
        "with no weights that llama.cpp knows": GgufBytes().to_bytes(),
    }


async def test_a_file_that_is_no_model_is_an_issue_while_the_old_one_serves(fleet: RunningFleet, tiny: Path) -> None:
    await asyncio.to_thread(fleet.serve, tiny)
    before = (await fleet.ask("??", 8)).pieces
    (fleet.folder / "a folder").mkdir()
    for fault, content in {**broken_files(tiny), "a folder": None}.items():
        path = fleet.folder / fault
        if content is not None:
            path.write_bytes(content)
        await asyncio.to_thread(fleet.put, desired_state(path))

        def blames(agent: dict[str, Any], path: Path = path) -> bool:
            return [(one["kind"], one["model_path"]) for one in agent["issues"]] == [
                ("ModelCannotBeLoaded", str(path))
            ] and bool(agent["accepting"])

        (agent,) = await asyncio.to_thread(fleet.wait_agents, blames)
        assert agent["issues"][0]["sentence"], fault
        assert (await fleet.ask("??", 8)).pieces == before, fault
    repaired = await asyncio.to_thread(fleet.serve, tiny)
    assert repaired["issues"] == []
    assert fleet.agents[0].log.count("is up") == 1, "the agent lost its link on the way"


def test_more_slots_than_llama_cpp_has_is_an_issue_and_the_agent_stays(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("many-slots")
    model = tiny_model_path(folder, TinyModel(chat_template=CHAT_TEMPLATE))
    with running_fleet(folder) as fleet:
        too_many = fleet.add_agent(slots=300)
        fleet.put(desired_state(model))
        (agent,) = fleet.wait_agents(lambda agent: bool(agent["issues"]))
        assert [one["kind"] for one in agent["issues"]] == ["SlotCannotStart"]
        assert "300" in agent["issues"][0]["sentence"]
        assert (agent["slots_total"], agent["desired_slots_total"]) == (0, 300)
        assert fleet.request("GET", "/ready")[0] == 503
        too_many.send(signal.SIGTERM)
        assert too_many.wait_exit() == 0, "it had not stayed up"
        fleet.add_agent(slots=2)  # what the issue says to do
        fleet.wait_agents(lambda agent: bool(agent["accepting"]) and agent["issues"] == [])
