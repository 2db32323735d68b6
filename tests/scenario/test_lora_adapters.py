"""LoRA adapters on the tiny F32 model: what the engine computes, what agents refuse, and how clients choose one."""

import dataclasses
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.core.backend import BatchPlan
from agent.core.commands import Submit
from agent.core.swap_events import Problem
from agent.llama.adapters import load_adapters
from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama_loaded_model import EngineOutlet
from agent.llama_runtime import LlamaRuntime
from shared.agent_status import IssueKind
from shared.desired_state import LocalToAgentSource
from shared.generation import SamplingParameters
from tests.support import agent_states
from tests.support.completion_client import CompletionClient
from tests.support.running_fleet import RunningFleet, desired_state
from tests.support.tiny_adapter import TinyAdapter, write_tiny_adapter
from tests.support.tiny_backend import run
from tests.support.tiny_engine import ExactParameters, Laboratory, RecordingSampler, Row
from tests.support.tiny_model import tiny_model_path

pytestmark = pytest.mark.model

TOLERANCE = 1e-3
PROMPT = list(range(259, 329))
ADAPTERS = (None, "poet", "clerk")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("adapters")


@pytest.fixture(scope="module")
def paths(folder: Path) -> dict[str, str]:
    return {
        name: str(write_tiny_adapter(folder / f"{name}.gguf", TinyAdapter(seed)))
        for seed, name in enumerate(["poet", "clerk"], start=1)
    }


# The engine


@dataclasses.dataclass(slots=True)
class Bench:
    """A backend with both adapters, whose members' rows of logits are kept."""

    laboratory: Laboratory
    backend: LlamaBackend
    samplers: list[RecordingSampler]

    def rows(self, wanted: list[str | None], answers: list[list[int]] | None = None) -> list[Row]:
        """All at once; each on the given tokens, or on those that it likes best."""
        given = answers or [[] for _ in wanted]
        self.samplers[:] = samplers = [RecordingSampler(tokens) for tokens in given]
        scheduler = self.laboratory.scheduler(self.backend, slots=3)
        for index, adapter in enumerate(wanted):
            scheduler.handle(Submit(index, tuple(PROMPT), 12, SamplingParameters(), 1, index, adapter=adapter))
        samplers = list(samplers)
        while (plan := scheduler.plan_next_batch()) is not None:
            scheduler.commit(plan, self.backend.decode(plan), self.backend.logits)
            scheduler.check_invariants()
        self.backend.clear()
        return [np.stack(sampler.rows) for sampler in samplers]


@pytest.fixture
def bench(folder: Path, paths: dict[str, str]) -> Iterator[Bench]:
    laboratory = Laboratory(tiny_model_path(folder))
    adapters = load_adapters(laboratory.model, paths)
    samplers: list[RecordingSampler] = []
    parameters = ExactParameters(slots=3, context_size=1024, n_batch=64, k_cache_dtype="F32", v_cache_dtype="F32")
    backend = LlamaBackend(LlamaContext(laboratory.model, parameters), lambda *_: samplers.pop(0), adapters)
    yield Bench(laboratory, backend, samplers)
    backend.close()
    laboratory.close()


def test_side_by_side_each_adapter_has_the_logits_of_a_run_alone(bench: Bench) -> None:
    alone = [bench.rows([adapter])[0] for adapter in ADAPTERS]
    answers = []
    for rows in alone:
        rows = rows.copy()
        rows[:, 2] = -np.inf
        answers.append([int(row.argmax()) for row in rows])
    assert len({tuple(answer) for answer in answers}) == 3
    together = bench.rows(list(ADAPTERS), answers)
    for mine, expected in zip(together, alone, strict=True):
        assert float(np.abs(mine - expected).max()) < TOLERANCE
    for other in alone[1:]:
        assert float(np.abs(other[0] - alone[0][0]).max()) > 100 * TOLERANCE, "the adapter changes nothing"


def test_an_adapter_that_is_not_loaded_is_refused_before_llama_cpp_sees_it(bench: Bench) -> None:
    with pytest.raises(ValueError, match="'nobody' is not loaded"):
        bench.backend.decode(BatchPlan((run(0, PROMPT),), "nobody"))


# The agent


def refusal(model: Path, adapter: Path | str) -> Problem:
    outlet = EngineOutlet(publish=lambda report: None, crashed=lambda loaded, sentence: None)
    runtime = LlamaRuntime(2, 1, outlet, time.monotonic)
    state = agent_states.state(str(model), context_size=256, n_batch=64)
    adapters = {"poet": LocalToAgentSource(LocalToAgent=str(adapter))}
    outcome = runtime.prove(state.model_copy(update={"lora_adapters": adapters}), lambda: True, reload=True)
    assert isinstance(outcome, Problem), "it was proved"
    return outcome


def tiny_model_beside(path: Path) -> None:
    tiny_model_path(path.parent).rename(path)


def truncated(path: Path) -> None:
    path.write_bytes(write_tiny_adapter(path).read_bytes()[:-64])


SPOILT: dict[str, tuple[Callable[[Path], Any], IssueKind, str]] = {
    "missing": (lambda path: None, IssueKind.MODEL_FILE_DOES_NOT_EXIST, "there is no such file"),
    "truncated": (truncated, IssueKind.MODEL_CANNOT_BE_LOADED, "its tensors need"),
    "of another architecture": (
        lambda path: write_tiny_adapter(path, TinyAdapter(architecture="qwen2")),
        IssueKind.MODEL_CANNOT_BE_LOADED,
        "was made for 'qwen2'",
    ),
    "of another kind": (
        lambda path: write_tiny_adapter(path, TinyAdapter(kind="loha")),
        IssueKind.MODEL_CANNOT_BE_LOADED,
        "no LoRA adapter",
    ),
    "of a larger model": (
        lambda path: write_tiny_adapter(path, TinyAdapter(channels=96)),
        IssueKind.MODEL_CANNOT_BE_LOADED,
        "",
    ),
    "of a matrix that is not there": (
        lambda path: write_tiny_adapter(path, TinyAdapter(tensor="ssm_in")),
        IssueKind.MODEL_CANNOT_BE_LOADED,
        "",
    ),
    "a model": (tiny_model_beside, IssueKind.MODEL_CANNOT_BE_LOADED, "no LoRA adapter"),
}


@pytest.mark.parametrize("damage", SPOILT)
def test_an_adapter_that_cannot_be_used_is_an_issue_that_names_it(folder: Path, tmp_path: Path, damage: str) -> None:
    spoil, kind, sentence = SPOILT[damage]
    path = tmp_path / "poet.gguf"
    spoil(path)
    (issue,) = refusal(tiny_model_path(folder), path).issues
    assert (issue.kind, issue.detail is not None) == (kind, True)
    assert "LoRA adapter 'poet'" in (issue.detail or "")
    assert sentence in (issue.detail or "")
    assert issue.model_path == str(path)


# Clients


@pytest.fixture(scope="module")
def fleet(shared_fleet: RunningFleet, folder: Path, paths: dict[str, str]) -> RunningFleet:
    adapters = {name: {"LocalToAgent": path} for name, path in paths.items()}
    document = {**desired_state(tiny_model_path(folder)), "served_model_names": ["tiny"], "lora_adapters": adapters}
    revision = shared_fleet.put(document)
    shared_fleet.wait_agents(lambda agent: agent["applied_revision"] == revision and bool(agent["accepting"]))
    return shared_fleet


def asked(fleet: RunningFleet, **fields: Any) -> str:
    defaults = {"model": "tiny", "prompt": PROMPT, "max_tokens": 16, "temperature": 0, "ignore_eos": True}
    document = CompletionClient(fleet.compat, "/v1/completions", defaults).document(**fields)
    text: str = document["choices"][0]["text"]
    return text


def test_model_and_lora_path_choose_an_adapter(fleet: RunningFleet) -> None:
    base, poet, clerk = asked(fleet), asked(fleet, lora_path="poet"), asked(fleet, lora_path="clerk")
    assert len({base, poet, clerk}) == 3
    assert asked(fleet, model="tiny:poet") == asked(fleet, model="tiny:poet", lora_path="poet") == poet
    assert asked(fleet) == base


def test_at_the_same_time_each_gets_its_own_answer(fleet: RunningFleet) -> None:
    alone = {name: asked(fleet, lora_path=name) for name in ADAPTERS}
    together: dict[str | None, str] = {}

    def ask(name: str | None) -> None:
        together[name] = asked(fleet, lora_path=name)

    threads = [threading.Thread(target=ask, args=(name,)) for name in ADAPTERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_the_other_route_and_the_list_of_models_know_adapters_too(fleet: RunningFleet) -> None:
    fields = {"prompt": "tell me", "max_tokens_to_sample": 16, "temperature": 0}
    client = CompletionClient(fleet.compat, "/v1/complete", fields)
    answers = [client.document(model=model)["completion"] for model in ("tiny", "tiny:poet", "tiny:clerk")]
    assert len(set(answers)) == 3
    with urllib.request.urlopen(f"http://{fleet.compat}/v1/models", timeout=20) as answer:
        ids = {model["id"] for model in json.load(answer)["data"]}
    assert ids == {"tiny", "tiny:poet", "tiny:clerk"}


def test_what_cannot_be_chosen_is_refused(fleet: RunningFleet) -> None:
    client = CompletionClient(fleet.compat, "/v1/completions", {"model": "tiny", "prompt": PROMPT})
    for fields, status, param in (
        ({"lora_path": "nobody"}, 400, "lora_path"),
        ({"model": "tiny:poet", "lora_path": "clerk"}, 400, "lora_path"),
        ({"model": "tiny:nobody"}, 404, "model"),
    ):
        answer = client.ask(**fields)
        assert (answer[0], json.loads(answer[1])["error"]["param"]) == (status, param)


def test_a_state_without_an_adapter_unloads_it(fleet: RunningFleet, folder: Path, paths: dict[str, str]) -> None:
    poet = asked(fleet, lora_path="poet")
    document = {**desired_state(tiny_model_path(folder)), "served_model_names": ["tiny"]}
    both = {name: {"LocalToAgent": path} for name, path in paths.items()}

    def put(adapters: dict[str, Any]) -> None:
        revision = fleet.put({**document, "lora_adapters": adapters})
        fleet.wait_agents(lambda agent: agent["applied_revision"] == revision and bool(agent["accepting"]))

    put({"clerk": both["clerk"], "bard": both["poet"]})
    client = CompletionClient(fleet.compat, "/v1/completions", {"model": "tiny", "prompt": PROMPT})
    assert client.ask(lora_path="poet")[0] == 400
    assert asked(fleet, lora_path="bard") == poet
    put(both)
    assert asked(fleet, lora_path="poet") == poet


def test_the_state_shows_its_adapters(fleet: RunningFleet, paths: dict[str, str]) -> None:
    wanted = {name: {"LocalToAgent": path} for name, path in paths.items()}
    assert fleet.get("/api/v1/balancer_desired_state")["lora_adapters"] == wanted
    assert fleet.get("/api/v1/balancer_applicable_state")["lora_adapters"] == wanted
