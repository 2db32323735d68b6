"""`steersman status`, as people and as programs read it."""

import json

import pytest

from balancer.console.agents_table import in_order_of_need, row_of
from balancer.console.health import findings
from balancer.console.status_view import status_document, status_lines, wanted_model
from balancer.console.text import columns_of
from shared.agent_status import AgentIssue, IssueKind
from tests.support.console_snapshots import fleet, snapshot
from tests.support.fleet_snapshots import Agent, status

MISSING = AgentIssue(kind=IssueKind.MODEL_FILE_DOES_NOT_EXIST, model_path="/m.gguf", detail="No file /m.gguf. " * 12)


def test_a_healthy_fleet_is_a_few_lines() -> None:
    agent = Agent(slots_processing=1, status=status(context_cells=8192, used_cells=4096))
    given = snapshot(agent)
    assert status_lines(given, findings(given), 80) == [
        "HEALTHY   1 agent, 1 of 4 slots busy, 0 requests waiting   (127.0.0.1:8060)",
        "model    /models/tiny.gguf",
        "serving  revision 1",
        "",
        "AGENT    SLOTS  STATE       MODEL      KV   HEARD",
        "agent-a  1/4    serving r1  tiny.gguf  50%  0.2s",
    ]


@pytest.mark.parametrize(
    ("wanted", "words"), [(None, "nothing; what is wanted is not known yet"), (0, "nothing; no state is stored")]
)
def test_only_what_is_known_of_the_wanted_state_is_said(wanted: int | None, words: str) -> None:
    assert f"serving  {words}" in status_lines(snapshot(wanted=wanted), [], 80)


def test_what_is_wrong_is_wrapped_with_the_next_step_below() -> None:
    given = snapshot(Agent(status=status(issues=[MISSING])), wanted=2)
    lines = status_lines(given, findings(given), 80)
    assert lines[0].startswith("SERVING, BUT SEE BELOW")
    assert "serving  revision 1; wanted is revision 2" in lines
    at = lines.index("WRONG")
    assert lines[at + 1].startswith("! agent-a: No file /m.gguf.")
    assert any(line.startswith("  -> Put the file there") for line in lines[at:])


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    many = [
        Agent(
            str(number),
            f"模型 with a rather long name {number}" * 3,
            status(issues=[MISSING], model_path="/" + "x" * 99),
        )
        for number in range(3)
    ]
    given = snapshot(*many, Agent("last", None), wanted=2)
    assert all(columns_of(line) <= max(width, 60) for line in status_lines(given, findings(given), width))


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "serving r1"),
        ({"swap_phase": "proving"}, "serving r1, proving"),
        ({"swap_phase": "draining", "accepting": False}, "exchanging"),
        ({"swap_phase": "settling", "accepting": False, "slots_total": 0}, "going back"),
        ({"swap_phase": "loading", "slots_total": 0, "accepting": False}, "loading"),
        ({"draining": True}, "leaving"),
        ({"issues": [MISSING]}, "serving r1 !"),
        ({"issues": [MISSING], "slots_total": 0, "accepting": False}, "cannot serve"),
        ({"slots_total": 0, "accepting": False}, "no model"),
        ({"peer_version_problem": "older", "slots_total": 0, "accepting": False}, "other version"),
    ],
)
def test_what_an_agent_does_is_two_words(changes: dict[str, object], shown: str) -> None:
    (agent,) = fleet(Agent(status=status(**changes))).agents
    assert row_of(agent)[2] == shown


def test_a_download_shows_how_far_it_is() -> None:
    given = status(
        swap_phase="loading",
        accepting=False,
        download_current=43,
        download_total=100,
        download_filename="tiny.gguf",
        download_indeterminate=False,
    )
    (agent,) = fleet(Agent(status=given)).agents
    assert row_of(agent)[2] == "loading, 43% here"


def test_an_agent_without_a_name_has_its_id() -> None:
    (agent,) = fleet(Agent("some-id", None)).agents
    assert row_of(agent)[0] == "some-id"


def test_those_in_need_come_first() -> None:
    well, swapping = Agent("1", "well"), Agent("2", "swapping", status(swap_phase="loading"))
    broken = Agent("3", "broken", status(issues=[MISSING]))
    ordered = in_order_of_need(fleet(well, swapping, broken).agents)
    assert [agent.name for agent in ordered] == ["broken", "swapping", "well"]


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("None", "none"),
        (None, "unknown (the desired state could not be read)"),
        ({"LocalToAgent": "/a\x1b.gguf"}, "/a?.gguf"),
        ({"Url": {"url": "https://x/y"}}, 'Url {"url": "https://x/y"}'),
    ],
)
def test_the_wanted_model_is_one_line(model: object, shown: str) -> None:
    assert wanted_model(snapshot(wanted_model=model)) == shown


def test_programs_get_the_documents_and_the_findings() -> None:
    given = snapshot(Agent(name="\x1b[2J", status=status(issues=[MISSING])))
    text = status_document({"fleet": {"agents": [{"name": "\x1b[2J"}]}}, findings(given))
    document = json.loads(text)
    assert document["healthy"] is False
    assert document["fleet"]["agents"][0]["name"] == "\x1b[2J"
    assert document["problems"][0]["next_step"].startswith("Put the file there")
    assert "\x1b" not in text
