"""No file may take the agent down: what would end the process ends the trial, and the old model serves on."""

import asyncio
import collections
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.core.swap_events import Problem, Proved
from agent.llama_loaded_model import EngineOutlet
from agent.llama_runtime import LlamaRuntime
from agent.model_files.errors import ModelFileError
from agent.model_files.header import read_header
from agent.model_port import LoadGivenUpError
from shared.agent_status import IssueKind
from shared.desired_state import AgentDesiredState
from tests.support import agent_states, budgets
from tests.support.child_environment import child_environment
from tests.support.hostile_models import HOSTILE, mutated, with_two_tokens_alike
from tests.support.scripted_balancer import ScriptedBalancer, generate
from tests.support.tiny_model import CHAT_TEMPLATE, TinyModel, demo_model_path, tiny_model_path

ROOT = Path(__file__).resolve().parents[2]
MUTATIONS = 40 if budgets.current().form == "short" else 1000
COMMAND = "import sys; from shared.command_line import main; sys.exit(main())"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_path(tmp_path_factory.mktemp("models"), TinyModel(chat_template=CHAT_TEMPLATE))


@pytest.fixture
def runtime() -> LlamaRuntime:
    outlet = EngineOutlet(publish=lambda report: None, crashed=lambda model, sentence: None)
    return LlamaRuntime(2, 1, outlet, time.monotonic)


def outcomes(paths: list[Path]) -> list[str]:
    """Of each file, from a process that proves and loads like the agent; fails when that did not live to the end."""
    command = [sys.executable, "-m", "tests.support.prove_files", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{paths[len(lines)]} ended the process with {done.returncode}: {done.stderr[-2000:]}"
    assert len(lines) == len(paths)
    return lines


def small(path: Path, **parameters: Any) -> AgentDesiredState:
    return agent_states.state(str(path), **({"context_size": 256, "n_batch": 64} | parameters))


def test_each_hostile_file_is_refused_in_the_proof_and_the_good_one_loads_after_it(good: Path, tmp_path: Path) -> None:
    paths = []
    for name, spoil in HOSTILE.items():
        paths.append(tmp_path / f"{name}.gguf")
        paths[-1].write_bytes(spoil(good.read_bytes()))
    *refused, last = outcomes([*paths, good])
    assert last == "loaded"
    for path, line in zip(paths, refused, strict=True):
        assert line.startswith(f"refused {IssueKind.MODEL_CANNOT_BE_LOADED}"), f"{path.name}: {line}"
    assert "SIGABRT" in refused[0], "this file no longer shows what the trial is for"


def test_random_changes_of_a_good_file_end_no_process(good: Path, tmp_path: Path) -> None:
    content, paths = good.read_bytes(), []
    for seed in range(MUTATIONS):
        paths.append(tmp_path / f"{seed}.gguf")
        paths[-1].write_bytes(mutated(content, seed))
    lines = outcomes(paths)
    ends = collections.Counter(line.split()[0] for line in lines)
    assert ends["not"] == 0, "a proved file did not load"
    tried = sum(_has_a_good_header(path) for path in paths)
    assert tried >= MUTATIONS // 8, f"these changes reach too little: {ends}, {tried} tried"
    assert 0 < ends["loaded"] < tried


def _has_a_good_header(path: Path) -> bool:
    try:
        read_header(path)
    except ModelFileError:
        return False
    return True


async def test_an_agent_serves_on_while_such_a_file_is_wanted(good: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(with_two_tokens_alike(good.read_bytes()))
    async with ScriptedBalancer() as balancer, agent_process(balancer) as process:
        agent = await balancer.wait_connection()
        await agent.set_state(1, small(good))
        await agent.wait_status(lambda status: status.applied_revision == 1 and status.accepting)
        await agent.send(generate(1, "tell me", 200))
        await agent.set_state(2, small(broken))
        status = await agent.wait_status(lambda status: bool(status.issues))
        assert [(issue.kind, issue.model_path) for issue in status.issues] == [
            (IssueKind.MODEL_CANNOT_BE_LOADED, str(broken))
        ]
        assert "crash (SIGABRT)" in status.issues[0].detail
        assert (status.applied_revision, status.accepting) == (1, True)
        assert (await agent.wait_end(1)).failure is None
        await agent.set_state(3, small(good))
        await agent.wait_status(lambda status: status.applied_revision == 3 and not status.issues)
        await agent.send(generate(2, "tell me", 4))
        assert (await agent.wait_end(2)).failure is None
        assert process.returncode is None, "the agent ended"
        assert len(balancer.connections) == 1


async def test_an_agent_serves_on_when_its_file_is_truncated_in_place(good: Path, tmp_path: Path) -> None:
    """Guards against mapped weights: the next decode would end the process with SIGBUS."""
    path = tmp_path / "model.gguf"
    path.write_bytes(good.read_bytes())
    async with ScriptedBalancer() as balancer, agent_process(balancer) as process:
        agent = await balancer.wait_connection()
        await agent.set_state(1, small(path))
        await agent.wait_status(lambda status: status.applied_revision == 1 and status.accepting)
        os.truncate(path, 1000)
        await agent.send(generate(1, "tell me", 50))
        assert (await agent.wait_end(1)).failure is None
        assert process.returncode is None, "the agent ended"


@contextlib.asynccontextmanager
async def agent_process(balancer: ScriptedBalancer) -> AsyncIterator[asyncio.subprocess.Process]:
    """`steersman agent` until the block ends."""
    arguments = ("agent", "--management-addr", balancer.address, "--slots", "2")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMAND, *arguments), cwd=ROOT, env=child_environment()
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def test_parameters_that_do_not_suit_the_model_are_found_before_the_old_model_is_freed(
    runtime: LlamaRuntime, tmp_path: Path
) -> None:
    narrow = tiny_model_path(tmp_path, TinyModel(heads=4))  # of 16 channels: quantised caches need blocks of 32
    proved = runtime.prove(small(narrow, k_cache_dtype="Q8_0", v_cache_dtype="Q8_0"), lambda: True, reload=True)
    assert isinstance(proved, Problem)
    assert [issue.kind for issue in proved.issues] == [IssueKind.SLOT_CANNOT_START]


def test_a_trial_is_given_up_when_nobody_waits_for_it(runtime: LlamaRuntime, good: Path) -> None:
    asked = 0

    def not_for_long() -> bool:
        nonlocal asked
        asked += 1
        return asked < 2

    with pytest.raises(LoadGivenUpError):
        runtime.prove(small(good), not_for_long, reload=True)


def test_a_file_that_changed_after_it_was_proved_is_proved_anew(
    runtime: LlamaRuntime, good: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(good.read_bytes())
    proved = runtime.prove(small(path), lambda: True, reload=True)
    assert isinstance(proved, Proved)
    path.write_bytes(with_two_tokens_alike(good.read_bytes()))
    loaded = runtime.load(small(path), proved.proof, lambda: True)
    assert isinstance(loaded, Problem)
    assert "SIGABRT" in loaded.issues[0].detail


@pytest.mark.model
def test_the_demo_model_is_proved_and_its_trial_leaves_no_memory_behind(runtime: LlamaRuntime) -> None:
    spent = time.process_time()
    proved = runtime.prove(small(demo_model_path()), lambda: True, reload=True)
    assert isinstance(proved, Proved)
    runtime.drop_proof(proved.proof)
    assert time.process_time() - spent < 5.0, "the trial is to happen in another process"
    assert threading.active_count() < 10
