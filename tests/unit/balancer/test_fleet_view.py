"""What Paddler's clients see of the fleet, what ours see, and when the balancer calls itself ready."""

from typing import Any

import pytest

from balancer.fleet_view import agents_document, buffered_requests_document, fleet_document, readiness
from shared.agent_status import AgentIssue, IssueKind, StateApplicationStatus
from shared.desired_state import DEFAULT_DESIRED_STATE, AgentDesiredState, LocalToAgentSource
from tests.support.fleet_snapshots import Agent, Fleet, Statistics, status

MODEL = AgentDesiredState(
    chat_template_override=None,
    inference_parameters=DEFAULT_DESIRED_STATE.inference_parameters,
    model=LocalToAgentSource(LocalToAgent="/models/tiny.gguf"),
    multimodal_projection="None",
)
MISSING = AgentIssue(
    kind=IssueKind.MODEL_FILE_DOES_NOT_EXIST, model_path="/models/missing.gguf", detail="No such file."
)


def agents(*fleet: Agent) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agents_document(Fleet(fleet))["agents"]
    return found


def ready(fleet: Fleet, *, knows_state: bool = True, is_shutting_down: bool = False) -> tuple[bool, dict[str, Any]]:
    return readiness(fleet, knows_state=knows_state, is_shutting_down=is_shutting_down)


def test_no_agents_is_an_empty_list() -> None:
    assert agents_document(Fleet()) == {"agents": []}


def test_an_agent_has_exactly_paddlers_13_keys() -> None:
    (agent,) = agents(Agent(slots_processing=1))
    assert agent == {
        "desired_slots_total": 4,
        "download_current": 0,
        "download_filename": None,
        "download_indeterminate": True,
        "download_total": 0,
        "id": "q3n0pXv8uT2rYwZ1aB4cD",
        "issues": [],
        "model_path": "/models/tiny.gguf",
        "name": "agent-a",
        "slots_processing": 1,
        "slots_total": 4,
        "state_application_status": "Applied",
        "uses_chat_template_override": False,
    }


def test_an_agent_that_downloads_and_has_an_issue_looks_as_paddlers() -> None:
    agent = Agent(
        name=None,
        status=status(
            slots_total=0,
            model_path=None,
            state_application_status=StateApplicationStatus.FRESH,
            download_current=1048576,
            download_total=4194304,
            download_filename="tiny.gguf",
            download_indeterminate=False,
            issues=[MISSING],
        ),
    )
    assert agents(agent) == [
        {
            "desired_slots_total": 4,
            "download_current": 1048576,
            "download_filename": "tiny.gguf",
            "download_indeterminate": False,
            "download_total": 4194304,
            "id": "q3n0pXv8uT2rYwZ1aB4cD",
            "issues": [{"ModelFileDoesNotExist": {"model_path": "/models/missing.gguf"}}],
            "model_path": None,
            "name": None,
            "slots_processing": 0,
            "slots_total": 0,
            "state_application_status": "Fresh",
            "uses_chat_template_override": False,
        }
    ]


def test_agents_are_sorted_by_name_then_id_the_nameless_last() -> None:
    shown = agents(
        Agent("3", None), Agent("2", "b"), Agent("1", None), Agent("5", "a"), Agent("4", "a"), Agent("0", "")
    )
    assert [(agent["name"], agent["id"]) for agent in shown] == [
        ("", "0"),
        ("a", "4"),
        ("a", "5"),
        ("b", "2"),
        (None, "1"),
        (None, "3"),
    ]


def test_issues_are_a_sorted_set() -> None:
    slots = [
        AgentIssue(kind=IssueKind.SLOT_CANNOT_START, slot_index=index, detail="no memory") for index in (10, 2, 10, 0)
    ]
    (agent,) = agents(Agent(status=status(issues=[*slots, MISSING, MISSING])))
    assert agent["issues"] == [
        {"ModelFileDoesNotExist": {"model_path": "/models/missing.gguf"}},
        *({"SlotCannotStart": {"error": "no memory", "slot_index": index}} for index in (0, 2, 10)),
    ]


def test_our_view_says_what_paddlers_has_no_words_for() -> None:
    agent = Agent(
        slots_processing=2,
        status=status(
            applied_revision=6,
            swap_phase="proving",
            slots_processing=3,
            request_limit_tokens=8192,
            context_cells=16384,
            used_cells=500,
            cached_tokens=300,
            issues=[MISSING],
        ),
    )
    fleet = fleet_document(Fleet((agent,), wanted_revision=7, applicable_state=MODEL), "it is away")
    assert fleet["state_database_problem"] == "it is away"
    assert fleet["wanted_revision"] == 7
    assert fleet["serving_revisions"] == [6]
    assert (fleet["slots_total"], fleet["slots_processing"]) == (4, 2)
    (shown,) = fleet["agents"]
    expected = {
        "applied_revision": 6,
        "swap_phase": "proving",
        "slots_processing": 2,
        "slots_processing_for_all_balancers": 3,
        "request_limit_tokens": 8192,
        "context_cells": 16384,
        "used_cells": 500,
        "cached_tokens": 300,
        "software_version": "0.1.0",
        "link": {"remote_address": "127.0.0.1", "last_heard_age_seconds": 0.25},
        "issues": [
            {"kind": "ModelFileDoesNotExist", "sentence": "No such file.", "model_path": "/models/missing.gguf"}
        ],
    }
    assert {key: shown[key] for key in expected} == expected


def test_buffered_requests_are_those_of_the_machine() -> None:
    assert buffered_requests_document(Statistics(requests_buffered=3)) == {"buffered_requests_current": 3}


def test_one_slot_that_serves_is_ready_and_both_revisions_are_named() -> None:
    old = Agent("1", status=status(applied_revision=3))
    new = Agent("2", status=status(applied_revision=4))
    loading = Agent("3", status=status(applied_revision=2, slots_total=0))
    assert ready(Fleet((old, new, loading), wanted_revision=4)) == (
        True,
        {"ready": True, "wanted_revision": 4, "serving_revisions": [3, 4], "slots_total": 8},
    )


@pytest.mark.parametrize("agent_status", [status(slots_total=0), status(accepting=False), status(draining=True)])
def test_slots_that_take_nothing_are_not_ready(agent_status: object) -> None:
    assert isinstance(agent_status, type(status()))
    is_ready, document = ready(Fleet((Agent(status=agent_status),), wanted_revision=1, applicable_state=MODEL))
    assert not is_ready
    assert document["serving_revisions"] == []
    assert document["slots_total"] == 0


@pytest.mark.parametrize(
    ("fleet", "knows_state", "is_shutting_down", "says"),
    [
        (Fleet((Agent(),)), True, True, "shutting down"),
        (Fleet(), False, False, "state database"),
        (Fleet(applicable_state=MODEL), True, False, "no agent is connected"),
        (
            Fleet((Agent(status=status(slots_total=0)),), 1, DEFAULT_DESIRED_STATE.for_agents()),
            True,
            False,
            "names no model",
        ),
        (Fleet((Agent(status=status(slots_total=0, issues=[MISSING])),), 1, MODEL), True, False, "issues"),
        (Fleet((Agent(status=status(slots_total=0)),), 1, MODEL), True, False, "no agent serves a model yet"),
    ],
)
def test_why_it_is_not_ready(fleet: Fleet, knows_state: bool, is_shutting_down: bool, says: str) -> None:
    is_ready, document = ready(fleet, knows_state=knows_state, is_shutting_down=is_shutting_down)
    assert not is_ready
    assert document["ready"] is False
    assert says in document["reason"]
    assert "/models" not in document["reason"]  # it is open to everybody


def test_a_slot_that_serves_is_ready_even_before_the_store_answers() -> None:
    assert ready(Fleet((Agent(),)), knows_state=False)[0]
