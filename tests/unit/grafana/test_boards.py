"""The rules of Grafana's dashboard-linter hold, and each rule can fail; what the boards point at is there."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grafana.build import boards
from grafana.queries import CLIENT_FAULTS
from shared.failures import FailureKind
from tests.support.dashboard_linter import complaints

BOARDS = boards()
FAILURES = Path(__file__).resolve().parents[3] / "docs/failures.md"


@pytest.mark.parametrize("name", BOARDS)
def test_the_linter_has_nothing_to_say(name: str) -> None:
    assert complaints(BOARDS[name]) == []


def set_in(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(board: dict[str, Any]) -> None:
        at: Any = board
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value

    return change


def replace_in_first_query(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(board: dict[str, Any]) -> None:
        (target, *_) = board["panels"][0]["targets"]
        assert old in target["expr"]
        target["expr"] = target["expr"].replace(old, new)

    return change


PLANTED = {
    "template-datasource": set_in("templating", "list", 0, "label", value="Source"),
    "template-job": set_in("templating", "list", 1, "multi", value=False),
    "template-instance": set_in("templating", "list", 2, "datasource", "uid", value="abc"),
    "template-label-promql": set_in("templating", "list", 1, "query", "query", value="label_values(job"),
    "template-on-time-change-reload": set_in("templating", "list", 1, "refresh", value=1),
    "panel-datasource": set_in("panels", 0, "datasource", value={"type": "prometheus", "uid": "abc"}),
    "panel-title-description": set_in("panels", 0, "description", value="**Good:** 0."),
    "panel-units": set_in("panels", 0, "fieldConfig", "defaults", "unit", value=""),
    "panel-no-targets": set_in("panels", 0, "targets", value=[]),
    "target-promql": replace_in_first_query("))", ")"),
    "target-rate-interval": replace_in_first_query("$__rate_interval", "5m"),
    "target-job": replace_in_first_query('job=~"$job"', 'job="steersman"'),
    "target-instance": replace_in_first_query(', instance=~"$instance"', ""),
    "target-counter-agg": replace_in_first_query("rate(", "max_over_time("),
    "uneditable-dashboard": set_in("editable", value=True),
    "an invented value": replace_in_first_query("sum", "vector(0) + sum"),
    "without matchers": replace_in_first_query("sum", "steersman_queue_depth + sum"),
    "it lies on another": set_in("panels", 1, "gridPos", value={"h": 8, "w": 12, "x": 0, "y": 0}),
    "no links": set_in("links", value=[]),
    "same id or title": set_in("panels", 1, "id", value=1),
    "of this moment": set_in("panels", 0, "type", value="stat"),
    "6 to 10": set_in("panels", value=[]),
}


@pytest.mark.parametrize("rule", PLANTED)
def test_a_planted_breach_is_found(rule: str) -> None:
    board = copy.deepcopy(BOARDS["requests.json"])
    PLANTED[rule](board)
    assert [one for one in complaints(board) if rule in one]


def test_links_and_names_lead_to_what_is_there() -> None:
    uids = {board["uid"] for board in BOARDS.values()}
    titles = [panel["title"] for board in BOARDS.values() for panel in board["panels"]]
    sections = re.findall(r"^#+ (.+)$", FAILURES.read_text(encoding="utf-8"), re.MULTILINE)
    for panel in (panel for board in BOARDS.values() for panel in board["panels"]):
        for link in panel["links"]:
            assert re.match(r"/d/([a-z-]+)\?", link["url"])[1] in uids, link  # type: ignore[index]
        for named in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", panel["description"]):
            assert any(title.startswith(named) for title in (*titles, *sections)), (panel["title"], named)


def test_what_clients_did_wrong_is_a_word_of_ours() -> None:
    assert set(CLIENT_FAULTS) < {kind.value for kind in FailureKind}


def test_every_board_marks_swaps_and_losses_and_leads_to_the_others() -> None:
    for board in BOARDS.values():
        assert [one["name"] for one in board["annotations"]["list"]] == ["Wanted state changed", "Agent lost"]
        assert board["links"][0]["tags"] == board["tags"]
        assert (board["links"][0]["keepTime"], board["links"][0]["includeVars"]) == (True, True)
