"""Every alert says what is wrong, what to do, and where to read more; its words are ours."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from balancer.metrics.request_metrics import FIRST_TOKEN_EDGES
from shared.failures import FailureKind

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "grafana/prometheus"


def rules_of(name: str) -> list[dict[str, Any]]:
    document = yaml.safe_load((FILES / name).read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in rules_of("alerts.yml")}
EVERY_RULE = [*ALERTS.values(), *rules_of("rules.yml")]
PAGE = (ROOT / "docs/grafana.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_and_what_to_do(name: str) -> None:
    alert = ALERTS[name]
    assert re.fullmatch(r"Steersman[A-Z][A-Za-z]+", name)  # the Fleet dashboard shows those
    assert alert["labels"]["severity"] in {"page", "ticket"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook"}
    assert "{{ $labels.instance }}" in alert["annotations"]["summary"]
    assert len(alert["annotations"]["description"]) > 80


@pytest.mark.parametrize("name", ALERTS)
def test_its_section_is_in_the_page(name: str) -> None:
    page, _, anchor = ALERTS[name]["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    assert page == "docs/grafana.md"
    assert anchor in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE), "not in the table"


@pytest.mark.parametrize("name", ALERTS)
def test_it_keeps_the_labels_that_dashboards_choose_by(name: str) -> None:
    kept = [set(re.split(r", ?", labels)) for labels in re.findall(r"sum by \(([^)]*)\)", ALERTS[name]["expr"])]
    used = set(re.findall(r"\$labels\.(\w+)", str(ALERTS[name]["annotations"])))
    assert all(used <= labels for labels in kept[:1])
    assert all({"job", "instance"} <= labels for labels in kept[:1])


def test_failures_and_edges_are_those_that_exist() -> None:
    words = {
        word
        for rule in EVERY_RULE
        for one in re.findall(r'failure=~"([^"]+)"', rule["expr"])
        for word in one.split("|")
    }
    edges = {float(edge) for rule in EVERY_RULE for edge in re.findall(r'le="([^"]+)"', rule["expr"])}
    assert words
    assert words <= {kind.value for kind in FailureKind}
    assert edges == {2.5}
    assert edges < set(FIRST_TOKEN_EDGES)


def test_a_rules_name_has_no_space_for_another_rule() -> None:
    names = [rule.get("alert") or rule["record"] for rule in EVERY_RULE]
    assert len(names) == len(set(names))
