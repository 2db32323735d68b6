"""One agent with real models: states that work, states that do not, and requests that run meanwhile."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.llama_loaded_model import EngineOutlet
from agent.llama_runtime import LlamaRuntime
from shared.agent_status import AgentStatus, IssueKind, StateApplicationStatus
from shared.desired_state import AgentDesiredState, HuggingFaceFile, HuggingFaceSource, UrlFile, UrlSource
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.messages_from_agent import Accepted, StatusUpdate
from shared.messages_to_agent import Cancel
from tests.support import agent_states
from tests.support.running_agent import running_agent
from tests.support.scripted_balancer import AgentConnection, ScriptedBalancer, generate
from tests.support.tiny_model import CHAT_TEMPLATE, TinyModel, demo_model_path, tiny_model_path

SLOTS = 4
MIBIBYTE = 1 << 20


def state(model: Any, template: str | None = None, **parameters: Any) -> AgentDesiredState:
    """Small and greedy, unless told otherwise; the tiny model's heads suit quantised caches too."""
    small = {"context_size": 512, "n_batch": 128, "temperature": 0.0, "penalty_repeat": 1.0, "penalty_presence": 0.0}
    return agent_states.state(str(model) if isinstance(model, Path) else model, template, **(small | parameters))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def first(folder: Path) -> Path:
    return tiny_model_path(folder, TinyModel(chat_template=CHAT_TEMPLATE))


@pytest.fixture(scope="module")
def second(folder: Path) -> Path:
    return tiny_model_path(folder, TinyModel(seed=8, add_bos=False, chat_template=CHAT_TEMPLATE))


@pytest.fixture
async def agent() -> AsyncIterator[AgentConnection]:
    """The link of a real agent."""

    def make_runtime(outlet: EngineOutlet) -> LlamaRuntime:
        return LlamaRuntime(SLOTS, 2, outlet, time.monotonic)

    async with ScriptedBalancer(heartbeat_interval_ms=2000) as balancer:
        async with running_agent(make_runtime, balancer, slots=SLOTS):
            connection = await balancer.wait_connection()
            yield connection
            assert len(balancer.connections) == 1, "the link was lost on the way"


async def applied(agent: AgentConnection, revision: int, wanted: AgentDesiredState) -> AgentStatus:
    await agent.set_state(revision, wanted)
    return await agent.wait_status(lambda status: status.applied_revision == revision and status.swap_phase is None)


async def answer(agent: AgentConnection, member: int, prompt: str = "tell me", max_tokens: int = 8) -> list[int]:
    await agent.send(generate(member, prompt, max_tokens))
    end = await agent.wait_end(member)
    assert end.failure is None, end
    return agent.tokens_of(member)


def phases(agent: AgentConnection) -> set[str | None]:
    return {one.status.swap_phase for one in agent.received if isinstance(one, StatusUpdate)}


async def test_a_running_request_ends_on_the_old_model_and_the_next_runs_on_the_new(
    agent: AgentConnection, first: Path, second: Path
) -> None:
    """C30: asking for another model kills nothing."""
    await applied(agent, 1, state(first))
    undisturbed = await answer(agent, 1, max_tokens=200)
    await agent.send(generate(2, "tell me", 200))
    await agent.wait_until(lambda: bool(agent.tokens_of(2)))
    await applied(agent, 2, state(second))
    assert agent.end_of(2) is not None
    assert agent.tokens_of(2) == undisturbed
    assert await answer(agent, 3, max_tokens=30) != undisturbed[:30]


async def test_only_the_last_of_several_quick_states_is_loaded(
    agent: AgentConnection, first: Path, second: Path
) -> None:
    await applied(agent, 1, state(first))
    for revision in range(2, 9):
        await agent.set_state(revision, state(second if revision % 2 else first, n_batch=revision * 8))
    status = await applied(agent, 9, state(second))
    assert status.model_path == str(second)
    revisions = {one.status.applied_revision for one in agent.received if isinstance(one, StatusUpdate)}
    assert len(revisions - {None}) <= 4, "states that nobody wanted any more were loaded"


async def test_an_identical_state_and_a_change_of_sampling_reload_nothing(agent: AgentConnection, first: Path) -> None:
    await applied(agent, 1, state(first))
    greedy = await answer(agent, 1, max_tokens=40)
    agent.received.clear()
    await applied(agent, 2, state(first))
    await applied(agent, 3, state(first, temperature=5.0))
    hot = await answer(agent, 2, max_tokens=40)
    await applied(agent, 4, state(first))
    assert await answer(agent, 3, max_tokens=40) == greedy != hot
    assert phases(agent) <= {None}


async def test_a_missing_file_is_an_issue_until_it_appears(agent: AgentConnection, first: Path, tmp_path: Path) -> None:
    later = tmp_path / "later.gguf"
    await applied(agent, 1, state(first))
    await agent.set_state(2, state(later))
    status = await agent.wait_status(lambda status: bool(status.issues))
    assert [(issue.kind, issue.model_path) for issue in status.issues] == [
        (IssueKind.MODEL_FILE_DOES_NOT_EXIST, str(later))
    ]
    assert (status.accepting, status.applied_revision) == (True, 1)
    assert status.state_application_status is StateApplicationStatus.ATTEMPTED_AND_RETRYING
    await answer(agent, 1)
    shutil.copy(first, tmp_path / "unfinished")
    (tmp_path / "unfinished").rename(later)
    status = await agent.wait_status(lambda status: status.applied_revision == 2)
    assert status.issues == []


@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty", "a folder"])
async def test_a_file_that_is_no_model_is_an_issue_and_another_state_clears_it(
    agent: AgentConnection, first: Path, tmp_path: Path, damage: str
) -> None:
    broken = tmp_path / "broken.gguf"
    content = first.read_bytes()
    if damage == "a folder":
        broken.mkdir()
    else:
        broken.write_bytes({"truncated": content[:-1000], "foreign": b"PK\3\4" * 1000, "empty": b""}[damage])
    await agent.set_state(1, state(broken))
    status = await agent.wait_status(lambda status: bool(status.issues))
    assert [issue.kind for issue in status.issues] == [IssueKind.MODEL_CANNOT_BE_LOADED]
    assert status.slots_total == 0
    status = await applied(agent, 2, state(first))
    assert status.issues == []
    await answer(agent, 1)


async def test_sources_that_are_not_supported_say_so(agent: AgentConnection, first: Path) -> None:
    await applied(agent, 1, state(first))
    hub = HuggingFaceSource(HuggingFace=HuggingFaceFile(filename="m.gguf", repo_id="a/b", revision="main"))
    url = UrlSource(Url=UrlFile(url="https://example.com/m.gguf"))
    sources: tuple[HuggingFaceSource | UrlSource, ...] = (hub, url)
    for revision, source in enumerate(sources, start=2):
        await agent.set_state(revision, state(source))
        status = await _blamed(agent, _path(source))
        assert status.state_application_status is StateApplicationStatus.ATTEMPTED_AND_NOT_APPLIABLE
        assert "not supported yet" in status.issues[0].detail
        assert status.accepting


def _path(source: HuggingFaceSource | UrlSource) -> str:
    return "a/b/main/m.gguf" if isinstance(source, HuggingFaceSource) else source.Url.url


async def _blamed(agent: AgentConnection, path: str) -> AgentStatus:
    return await agent.wait_status(lambda status: any(issue.model_path == path for issue in status.issues))


async def test_a_model_without_a_template_and_a_projection_are_noted_and_text_is_served(
    agent: AgentConnection, folder: Path, second: Path
) -> None:
    base = tiny_model_path(folder, TinyModel(seed=9))
    wanted = state(base).model_copy(update={"multimodal_projection": state(second).model})
    status = await applied(agent, 1, wanted)
    kinds = {issue.kind for issue in status.issues}
    assert kinds == {IssueKind.UNABLE_TO_FIND_CHAT_TEMPLATE, IssueKind.MULTIMODAL_PROJECTION_CANNOT_BE_LOADED}
    await answer(agent, 1)
    status = await applied(agent, 2, state(base, template="{{ messages }}"))
    assert status.issues == []
    assert status.uses_chat_template_override


async def test_a_template_that_does_not_compile_leaves_the_old_state_in_force(
    agent: AgentConnection, first: Path
) -> None:
    await applied(agent, 1, state(first))
    await agent.set_state(2, state(first, template="{% for"))
    status = await agent.wait_status(lambda status: bool(status.issues))
    assert [issue.kind for issue in status.issues] == [IssueKind.CHAT_TEMPLATE_DOES_NOT_COMPILE]
    assert (status.applied_revision, status.accepting) == (1, True)


async def test_a_context_that_cannot_be_made_brings_the_old_model_back(agent: AgentConnection, first: Path) -> None:
    await applied(agent, 1, state(first))
    greedy = await answer(agent, 1)
    await agent.set_state(2, state(first, context_size=2**31 - 1))
    status = await agent.wait_status(lambda status: bool(status.issues) and status.accepting)
    assert [issue.kind for issue in status.issues] == [IssueKind.SLOT_CANNOT_START]
    assert status.applied_revision == 1
    assert await answer(agent, 2) == greedy


@pytest.mark.parametrize(
    "parameters",
    [
        {"context_size": 64, "n_batch": 2048},
        {"n_batch": 1},
        {"k_cache_dtype": "Q8_0", "v_cache_dtype": "Q8_0"},
        {"penalty_last_n": -1, "penalty_repeat": 1.5},
    ],
)
async def test_awkward_states_serve(agent: AgentConnection, first: Path, parameters: dict[str, Any]) -> None:
    await applied(agent, 1, agent_states.state(str(first), **parameters))
    for member in range(SLOTS):
        await agent.send(generate(member, "a few words", 12))
    for member in range(SLOTS):
        end = await agent.wait_end(member)
        assert end.failure is None
        assert end.usage.prompt_tokens > 1
    await agent.wait_status(lambda status: status.slots_processing == 0)


async def test_a_prompt_longer_than_the_context_as_asked_names_both_lengths(
    agent: AgentConnection, first: Path
) -> None:
    """llama.cpp rounds a context of 64 up to 256; the request limit is what was asked for."""
    status = await applied(agent, 1, state(first, context_size=64))
    assert status.request_limit_tokens == 64
    await agent.send(generate(1, "?" * 63, 4))  # and BOS
    refused = await agent.wait_refused(1)
    assert refused.kind is FailureKind.PROMPT_TOO_LONG
    assert refused.message.count("64") == 2


async def test_bos_is_there_once_if_the_model_asks_for_it_and_not_at_all_if_not(
    agent: AgentConnection, first: Path, second: Path
) -> None:
    """C33."""
    await applied(agent, 1, state(first))
    for member, prompt in ((1, "??"), (2, "<s>??"), (3, "")):
        await agent.send(generate(member, prompt, 1))
        await agent.wait_end(member)
    assert [_prompt_tokens(agent, member) for member in (1, 2, 3)] == [3, 3, 1]
    await applied(agent, 2, state(second))
    await agent.send(generate(4, "??", 1))
    await agent.wait_end(4)
    assert _prompt_tokens(agent, 4) == 2
    await agent.send(generate(5, "", 1))
    assert (await agent.wait_refused(5)).kind is FailureKind.EMPTY_PROMPT  # C19
    await answer(agent, 6)


def _prompt_tokens(agent: AgentConnection, member: int) -> int:
    (accepted,) = [one for one in agent.of_member(member) if isinstance(one, Accepted)]
    return accepted.prompt_tokens


async def test_no_model_unloads_and_a_model_loads_again(agent: AgentConnection, first: Path) -> None:
    await applied(agent, 1, state(first))
    status = await applied(agent, 2, state("None"))
    assert (status.slots_total, status.accepting, status.model_path) == (0, False, None)
    assert status.state_application_status is StateApplicationStatus.APPLIED
    await applied(agent, 3, state(first))
    await answer(agent, 1)


@pytest.mark.model
@pytest.mark.long  # a fleet that swaps five times is in the short form
async def test_swapping_back_and_forth_keeps_one_models_memory(agent: AgentConnection, first: Path) -> None:
    """C30: memory returns to one model's size; weights of two models would be 98 MB more."""
    demo, other = state(demo_model_path()), state(first)
    await applied(agent, 1, demo)
    await answer(agent, 1)
    await applied(agent, 2, other)
    after_one = _resident_bytes()
    for revision in range(3, 7, 2):
        await applied(agent, revision, demo)
        await answer(agent, revision)
        await applied(agent, revision + 1, other)
    assert _resident_bytes() - after_one < 40 * MIBIBYTE


def _resident_bytes() -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        (line,) = [line for line in file if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


@pytest.mark.model
async def test_a_long_prompt_is_read_without_silence_and_can_be_left(agent: AgentConnection) -> None:
    """C24 and C22 b: heartbeats and status flow meanwhile, and a cancelled prompt stops at the next chunk."""
    await applied(agent, 1, state(demo_model_path(), context_size=8192, n_batch=2048))
    await agent.send(generate(1, "All work and no play makes Jack a dull boy. " * 500, 50))
    await agent.wait_until(lambda: len(list(agent.of_member(1))) >= 3)  # accepted, and some progress
    pings, statuses = agent.pings, agent.status.status_version
    await agent.wait_until(lambda: agent.pings >= pings + 2)
    assert agent.status.status_version > statuses
    assert agent.end_of(1) is None, "the prompt was too short for this test"
    before = len(list(agent.of_member(1)))
    await agent.send(Cancel(member=1, attempt=0))
    end = await agent.wait_end(1)
    assert end.finish_reason is FinishReason.CANCELLED
    assert len(list(agent.of_member(1))) - before <= 4, "it was read on; some steps may have been on their way"
    assert agent.tokens_of(1) == []
    await agent.send(generate(2, "Hello", 3))
    await agent.wait_end(2)


@pytest.mark.model
async def test_leaving_hands_a_long_prompt_back_and_ends() -> None:
    def make_runtime(outlet: EngineOutlet) -> LlamaRuntime:
        return LlamaRuntime(SLOTS, 2, outlet, time.monotonic)

    async with ScriptedBalancer() as balancer:
        async with running_agent(make_runtime, balancer, slots=SLOTS, drain_timeout_seconds=0.1) as running:
            agent = await balancer.wait_connection()
            await applied(agent, 1, state(demo_model_path(), context_size=8192, n_batch=2048))
            await agent.send(generate(1, "All work and no play makes Jack a dull boy. " * 500, 50))
            await agent.wait_until(lambda: len(list(agent.of_member(1))) >= 2)
            async with asyncio.timeout(30.0):
                await running.leave()
            assert agent.close_code == 1001
