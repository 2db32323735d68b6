"""A whole dashboard: variables, annotations and links are the same on each; panels flow from left to right."""

from collections.abc import Sequence
from typing import Any

from grafana.panels import DATASOURCE, Json
from grafana.queries import RANGE, series

COLUMNS = 24
TAG = "steersman"
# Grafana 10 and later read this; newer ones migrate it on loading.
SCHEMA_VERSION = 39


def dashboard(uid: str, title: str, description: str, panels: Sequence[Json]) -> Json:
    """The document of one dashboard. `description`: the question that it answers."""
    return {
        "annotations": {"list": [_swaps(), _losses()]},
        "description": description,
        "editable": False,
        "graphTooltip": 1,  # one cross-hair through all panels
        "id": None,
        "links": [_links()],
        "panels": _placed(panels),
        "refresh": "30s",
        "schemaVersion": SCHEMA_VERSION,
        "tags": [TAG],
        "templating": {"list": [_datasource(), *_choices()]},
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "title": title,
        "uid": uid,
    }


def _placed(panels: Sequence[Json]) -> list[Json]:
    placed: list[Json] = []
    x = y = row_height = 0
    for number, panel in enumerate(panels, 1):
        size = panel["gridPos"]
        if x + size["w"] > COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        placed.append({**panel, "gridPos": {**size, "x": x, "y": y}, "id": number})
        x, row_height = x + size["w"], max(row_height, size["h"])
    return placed


def _swaps() -> Json:
    changed = f"changes({series('desired_state_revision')}[{RANGE}]) > 0"
    return _annotation("Wanted state changed", changed, "blue", "revision changed at {{instance}}")


def _losses() -> Json:
    lost = f"increase({series('agents_lost_total')}[{RANGE}]) > 0"
    return _annotation("Agent lost", lost, "red", "lost by {{instance}}")


def _annotation(name: str, expression: str, colour: str, words: str) -> Json:
    return {
        "datasource": DATASOURCE,
        "enable": True,
        "expr": expression,
        "hide": False,
        "iconColor": colour,
        "name": name,
        "step": "60s",
        "tagKeys": "instance",
        "textFormat": words,
        "titleFormat": name,
    }


def _links() -> Json:
    return {
        "asDropdown": False,
        "icon": "dashboard",
        "includeVars": True,
        "keepTime": True,
        "tags": [TAG],
        "targetBlank": False,
        "title": "",
        "type": "dashboards",
        "url": "",
    }


def _datasource() -> Json:
    return {
        "current": {},
        "hide": 0,
        "includeAll": False,
        "label": "Data source",
        "multi": False,
        "name": "datasource",
        "options": [],
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "type": "datasource",
    }


def _choices() -> list[Json]:
    of_chosen_jobs = 'label_values(steersman_build_info{job=~"$job"}, instance)'
    return [_choice("job", "label_values(steersman_build_info, job)"), _choice("instance", of_chosen_jobs)]


def _choice(name: str, query: str) -> dict[str, Any]:
    return {
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "datasource": DATASOURCE,
        "definition": query,
        "hide": 0,
        "includeAll": True,
        "label": name.title(),
        "multi": True,
        "name": name,
        "options": [],
        "query": {"query": query, "refId": f"{name}-choices"},
        "refresh": 2,  # also when the time range changes: what is gone by now had its time
        "regex": "",
        "sort": 1,
        "type": "query",
    }
