"""Whatever the runtime does, exactly one fact comes back."""

import threading

from agent.core import swap_events as facts
from agent.swap_jobs import exchange, model_path_of, prove, source_path
from shared.agent_status import MAX_TEXT_CHARACTERS
from shared.desired_state import HuggingFaceFile, HuggingFaceSource, UrlFile, UrlSource
from tests.support.agent_states import state
from tests.support.fake_model import FakeModel
from tests.unit.agent.test_reconciler import PROBLEM, FakeRuntime

A = state("/a.gguf")


def test_a_good_state_is_proved_and_loaded_after_the_old_model_is_closed() -> None:
    runtime, old = FakeRuntime(), FakeModel()
    assert isinstance(prove(runtime, A, threading.Event(), reload=True).event, facts.Proved)
    result = exchange(runtime, old, A, "proof", threading.Event())
    assert result.event == facts.Loaded()
    assert result.model is runtime.models[0]
    assert old.is_closed


def test_a_refusal_is_a_fact() -> None:
    runtime = FakeRuntime(refuse=A)
    assert exchange(runtime, None, A, "proof", threading.Event()).event == facts.LoadRefused(PROBLEM)


def test_an_exception_is_a_refusal_that_may_pass() -> None:
    event = prove(FakeRuntime(error=OSError("secret detail")), A, threading.Event(), reload=True).event
    assert isinstance(event, facts.ProofRefused)
    assert event.problem.may_pass
    assert "secret" not in event.problem.issues[0].detail


def test_no_proof_means_that_nothing_is_loaded() -> None:
    assert exchange(FakeRuntime(), FakeModel(), state("None"), None, threading.Event()).event == facts.Unloaded()


def test_a_load_given_up_before_it_began_drops_its_proof() -> None:
    runtime, give_up = FakeRuntime(), threading.Event()
    give_up.set()
    assert exchange(runtime, None, A, "proof", give_up).event == facts.LoadGivenUp()
    assert runtime.dropped == ["proof"]
    assert runtime.models == []


def test_a_proof_given_up_before_it_began_or_on_the_way_says_nothing_of_the_state() -> None:
    runtime, give_up = FakeRuntime(), threading.Event()
    runtime.may_prove.clear()
    results: list[facts.Event] = []
    thread = threading.Thread(target=lambda: results.append(prove(runtime, A, give_up, reload=True).event))
    thread.start()
    assert runtime.is_proving.wait(5.0)
    give_up.set()
    thread.join(5.0)
    results.append(prove(runtime, A, give_up, reload=True).event)
    assert results == [facts.ProofGivenUp(), facts.ProofGivenUp()]
    assert runtime.proofs == [A]


def test_a_load_given_up_on_the_way_ends() -> None:
    runtime, give_up = FakeRuntime(), threading.Event()
    runtime.may_load.clear()
    results: list[facts.Event] = []
    thread = threading.Thread(target=lambda: results.append(exchange(runtime, None, A, "p", give_up).event))
    thread.start()
    assert runtime.is_loading.wait(5.0)
    give_up.set()
    thread.join(5.0)
    assert results == [facts.LoadGivenUp()]


def test_sources_are_named_as_on_the_wire_and_fit_into_an_issue() -> None:
    assert model_path_of(A) == "/a.gguf"
    assert source_path("None") == ""
    assert source_path(UrlSource(Url=UrlFile(url="https://x/y"))) == "https://x/y"
    file = HuggingFaceFile(filename="f" * 4096, repo_id="r" * 4096, revision="v" * 4096)
    assert len(source_path(HuggingFaceSource(HuggingFace=file))) == MAX_TEXT_CHARACTERS
