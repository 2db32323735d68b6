"""What an agent's line in `systemctl status` says, and what has to advance for a ping."""

import pytest

from agent.service_status import service_facts
from shared.agent_status import AgentIssue, IssueKind
from shared.service_manager import ServiceFacts
from tests.support.agent_statuses import agent_status


def facts(load_fraction: float = 0.0, balancers: int = 1, is_ready: bool = True, **status: object) -> ServiceFacts:
    return service_facts(agent_status(**status), balancers, load_fraction, is_ready=is_ready)  # type: ignore[arg-type]


def test_an_agent_that_serves_names_its_model_its_slots_and_its_link() -> None:
    served = facts(model_path="/secret/folder/tiny.gguf", slots_processing=3)
    assert served.status == "tiny.gguf, 3/4 slots busy, linked to 1 balancer"
    assert facts(balancers=2).status == "no model, 0/4 slots busy, linked to 2 balancers"
    assert "NO BALANCER reached" in facts(balancers=0).status


def test_it_is_ready_when_it_dials_model_or_not() -> None:
    assert facts(balancers=0).is_ready
    assert not facts(is_ready=False).is_ready


@pytest.mark.parametrize("phase", ["loading", "settling"])
def test_a_load_says_how_far_it_is_and_has_no_engine_to_wait_for(phase: str) -> None:
    loading = facts(load_fraction=0.437, swap_phase=phase, last_step_age_seconds=99.0)
    assert "loading a model: 43 %" in loading.status
    assert loading.load == 0.437
    assert loading.silent_seconds == 0.0


@pytest.mark.parametrize("phase", ["proving", "draining"])
def test_while_the_old_model_serves_its_engine_has_to_advance(phase: str) -> None:
    serving = facts(swap_phase=phase, last_step_age_seconds=7.0, model_path="/old.gguf")
    assert f"{phase} for another model" in serving.status
    assert serving.load is None
    assert serving.silent_seconds == 7.0


def test_the_first_model_replaces_none() -> None:
    assert facts(swap_phase="proving").status == "no model, 0/4 slots busy, proving a model, linked to 1 balancer"


def test_an_idle_engine_has_to_do_nothing() -> None:
    assert facts(last_step_age_seconds=None).silent_seconds == 0.0


def test_a_download_says_how_far_it_is() -> None:
    half = facts(download_filename="big.gguf", download_current=5, download_total=10)
    assert "downloading big.gguf: 50 %" in half.status
    assert "downloading big.gguf: size unknown" in facts(download_filename="big.gguf").status


def test_the_first_issue_is_named_and_no_path() -> None:
    issue = AgentIssue(kind=IssueKind.MODEL_CANNOT_BE_LOADED, model_path="/secret/x.gguf", detail="broken")
    line = facts(issues=[issue]).status
    assert "issue: ModelCannotBeLoaded" in line
    assert "secret" not in line
