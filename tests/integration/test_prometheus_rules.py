"""promtool reads what we hand out, the tests of our alerts pass, and boards count nothing twice over two balancers."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from grafana.build import boards
from tests.support.dashboard_linter import expressions
from tests.support.prometheus_server import FILES, PROMTOOL, require_prometheus

PANELS = {title: expression for board in boards().values() for title, expression in expressions(board)}
FLEET = "steersman_fleet_"


@pytest.fixture(autouse=True)
def is_installed() -> None:
    require_prometheus()


def promtool(*words: str | Path) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, timeout=50.0, cwd=FILES, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rules_and_the_example_configuration_are_valid() -> None:
    assert promtool("check", "rules", "rules.yml", "alerts.yml").count("SUCCESS") == 2
    assert "is valid prometheus config file syntax" in promtool("check", "config", "prometheus.yml")


def test_alerts_fire_for_their_trouble_only_and_rules_give_the_right_numbers() -> None:
    assert promtool("test", "rules", "alerts_test.yml", "rules_test.yml").count("SUCCESS") == 2


def heard_by_both(name: str, per_minute: float, **labels: str) -> list[dict[str, str]]:
    """Two balancers of one fleet that say the same."""
    return [
        {
            "series": f"{FLEET}{name}{json_labels(job='fleet', instance=instance, **labels)}",
            "values": f"0+{per_minute:g}x20",
        }
        for instance in ("b1", "b2")
    ]


def json_labels(**labels: str) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def shown(expression: str) -> str:
    return expression.replace("$__rate_interval", "5m").replace("$job", ".+").replace("$instance", ".+")


def test_panels_over_two_balancers_that_share_their_agents(tmp_path: Path) -> None:
    """A panel once took the largest of the results of constraints for their sum."""
    series = [
        *heard_by_both("constraints_total", 60, result="compiled"),
        *heard_by_both("constraints_total", 120, result="cached"),
        *heard_by_both("constraints_total", 60, result="refused"),
        *heard_by_both("generated_tokens_total", 600),
        *heard_by_both("forced_tokens_total", 300),
        *heard_by_both("batch_tokens_sum", 600),
        *heard_by_both("batch_tokens_count", 60),
        # Each balancer has taken two of the eight slots.
        *(
            {
                "series": f"steersman_slots{json_labels(job='fleet', instance=instance, state=state)}",
                "values": f"{slots}x20",
            }
            for instance in ("b1", "b2")
            for state, slots in (("processing", 2), ("free", 4))
        ),
    ]
    wanted = {
        "Constraints that were refused": 0.25,
        "Constraints that were compiled before": 0.5,
        "Generated tokens that the constraint forced": 0.5,
        "Slots that serve, busy or free": 8,
    }
    asked: list[dict[str, Any]] = [
        {"expr": shown(PANELS[title]), "eval_time": "20m", "exp_samples": [{"labels": "{}", "value": value}]}
        for title, value in wanted.items()
    ]
    file = tmp_path / "panels_test.yml"
    file.write_text(
        json.dumps({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": asked}]}), encoding="utf-8"
    )
    assert "SUCCESS" in promtool("test", "rules", file)
