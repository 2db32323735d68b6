"""One picture: it fits the terminal, shows those in need first, and says when it is old."""

import pytest

from balancer.console.fleet_snapshot import Readiness
from balancer.console.metrics_reading import read_metrics
from balancer.console.text import columns_of
from balancer.console.top_view import Picture, frame
from shared.agent_status import AgentIssue, IssueKind
from tests.support.console_snapshots import ADDRESS, fleet
from tests.support.fleet_snapshots import Agent, status

MISSING = AgentIssue(kind=IssueKind.MODEL_FILE_DOES_NOT_EXIST, detail="No file.")
CLOCK = "12:34:56"


def picture(*agents: Agent, **changes: object) -> Picture:
    found = Picture(ADDRESS, fleet=fleet(*agents), readiness=Readiness(ready=True), requests_waiting=2)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_a_whole_picture() -> None:
    shown = picture(Agent(slots_processing=3, status=status(context_cells=100, used_cells=63)))
    shown.add_reading(read_metrics("steersman_generated_tokens_total 0\nsteersman_requests_total 0\n", 0.0))
    shown.add_reading(read_metrics("steersman_generated_tokens_total 412\nsteersman_requests_total 3\n", 1.0))
    assert frame(shown, 1.0, (80, 24), CLOCK) == [
        "steersman top  127.0.0.1:8060  READY                                    12:34:56",
        "serving revision 1   1 agent   slots 3/4 busy   waiting 2",
        "tokens/s 412   prompt tokens/s -   requests/s 3.0",
        "first token p50 -, p95 -   between tokens p50 -, p95 -",
        "",
        "AGENT    SLOTS  STATE       MODEL      KV   HEARD",
        "agent-a  3/4    serving r1  tiny.gguf  63%  0.2s",
    ]


@pytest.mark.parametrize("size", [(80, 24), (60, 12), (200, 50), (20, 3)])
@pytest.mark.parametrize("away_since", [None, 3.0])
def test_it_fits_the_terminal(size: tuple[int, int], away_since: float | None) -> None:
    agents = [Agent(str(number), f"模型-{number}" * 9, status(issues=[MISSING] * (number % 4))) for number in range(60)]
    lines = frame(picture(*agents, away_since=away_since, trouble={"x": "y" * 300}), 9.0, size, CLOCK)
    assert len(lines) <= max(size[1], 12)
    assert all(columns_of(line) <= max(size[0], 60) for line in lines)
    assert "more agents; `steersman status` lists all" in lines[-1]


def test_agents_in_need_come_first_with_their_issues_below() -> None:
    lines = frame(picture(Agent(), Agent("b", "agent-b", status(issues=[MISSING]))), 0.0, (80, 24), CLOCK)
    assert [line.split("  ")[0] or line.strip() for line in lines[6:]] == ["agent-b", "! No file.", "agent-a"]


def test_many_issues_of_one_agent_are_counted() -> None:
    issues = [MISSING.model_copy(update={"detail": f"Number {number}."}) for number in range(5)]
    lines = frame(picture(Agent(status=status(issues=issues))), 0.0, (80, 24), CLOCK)
    assert "  ! and 3 more issues" in lines


def test_a_balancer_that_went_away_is_said_and_the_ages_go_on() -> None:
    shown = picture(Agent(), away_since=10.0, trouble={"a": "nobody answers", "b": "nobody answers"})
    lines = frame(shown, 22.0, (80, 24), CLOCK)
    assert "AWAY for 12s, trying again" in lines[0]
    assert lines.count("! nobody answers") == 1
    assert lines[-1].endswith("22s")


def test_before_the_first_answer_there_is_a_picture_too() -> None:
    lines = frame(Picture(ADDRESS), 0.0, (80, 24), CLOCK)
    assert "connecting" in lines[0]


def test_why_it_is_not_ready_is_in_the_title() -> None:
    lines = frame(picture(readiness=Readiness(ready=False, reason="no agent is connected")), 0.0, (80, 24), CLOCK)
    assert "NOT READY: no agent is connected" in lines[0]
    assert lines[-1] == "no agent is connected; `steersman status` says what to do"


def test_readings_of_a_process_that_is_gone_are_forgotten() -> None:
    shown = picture(Agent())
    for at, count in enumerate((5, 9, 1)):
        shown.add_reading(read_metrics(f"steersman_requests_total {count}\n", float(at)))
    assert len(shown.readings) == 1
    assert shown.numbers(since_start=False).requests_per_second is None


def test_without_metrics_it_says_so() -> None:
    lines = frame(picture(Agent(), has_metrics=False), 0.0, (80, 24), CLOCK)
    assert "no numbers: /metrics of this balancer does not answer" in lines
