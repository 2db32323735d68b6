"""Panels as Grafana's JSON documents. A panel has a title, a description, a unit and at least one query; all else is
the same for all panels of a kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
QUIET = "no traffic"

GREEN, ORANGE, RED, BLUE = "green", "orange", "red", "blue"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and what its lines are called (`{{label}}` stands for a label's value)."""

    expression: str
    legend: str = "__auto"


@dataclass(frozen=True, slots=True)
class Text:
    """`title` says what is shown; `good` what it looks like when all is well; `otherwise` what to do if it does not."""

    title: str
    good: str
    otherwise: str

    @property
    def description(self) -> str:
        return f"**Good:** {self.good}\n\n**If not:** {self.otherwise}"


@dataclass(frozen=True, slots=True)
class Look:
    """`steps`: (from this value on, colour), the first from None; drawn as lines in a graph.

    `size`: columns of 24, rows. `link`: the uid of the dashboard that tells more. `empty`: what stands there without
    data.
    """

    unit: str
    steps: tuple[tuple[float | None, str], ...] = ((None, BLUE),)
    size: tuple[int, int] = (8, 8)
    stacked: bool = False
    bars: bool = False
    decimals: int | None = None
    link: str | None = None
    empty: str = QUIET


def below(orange: float, red: float) -> tuple[tuple[float | None, str], ...]:
    """The lower the better."""
    return ((None, GREEN), (orange, ORANGE), (red, RED))


def at_least(green: float) -> tuple[tuple[float | None, str], ...]:
    """Less is an outage."""
    return ((None, RED), (green, GREEN))


def stat(text: Text, look: Look, *queries: Query, overrides: Sequence[Json] = ()) -> Json:
    """The value of this moment, large, on the colour of its step. It is asked for as an instant: the last point of a
    curve may be old, and would look well while nothing answers any more."""
    options = {
        "colorMode": "background",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto" if len(queries) > 1 else "value",
    }
    panel = {**_panel("stat", text, look, queries), "options": options} | _fields(look, {}, overrides)
    for target in panel["targets"]:
        target |= {"instant": True, "range": False}
    return panel


def graph(text: Text, look: Look, *queries: Query, overrides: Sequence[Json] = ()) -> Json:
    """Lines over time, or areas or bars on top of each other."""
    custom = {
        "drawStyle": "bars" if look.bars else "line",
        "fillOpacity": 60 if look.stacked or look.bars else 8,
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"group": "A", "mode": "normal" if look.stacked else "none"},
        "thresholdsStyle": {"mode": "dashed" if len(look.steps) > 1 else "off"},
    }
    options = {
        "legend": {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return {**_panel("timeseries", text, look, queries), "options": options} | _fields(look, custom, overrides)


def timeline(text: Text, look: Look, mappings: Sequence[Json], *queries: Query) -> Json:
    """One bar for each series, coloured by its value, from when to when it was so."""
    options = {
        "alignValue": "left",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
        "mergeValues": True,
        "rowHeight": 0.85,
        "showValue": "auto",
        "tooltip": {"mode": "single", "sort": "none"},
    }
    panel = {**_panel("state-timeline", text, look, queries), "options": options}
    fields = _fields(look, {"fillOpacity": 80, "lineWidth": 0}, ())
    fields["fieldConfig"]["defaults"]["mappings"] = list(mappings)
    return panel | fields


def value_words(words: dict[int, tuple[str, str]]) -> Json:
    """A mapping of values to (word, colour)."""
    options = {
        str(value): {"color": colour, "index": index, "text": word}
        for index, (value, (word, colour)) in enumerate(words.items())
    }
    return {"options": options, "type": "value"}


def only_for(name: str, **properties: Any) -> Json:
    """An override: these properties for the line of this name."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }


def _panel(kind: str, text: Text, look: Look, queries: Sequence[Query]) -> Json:
    width, height = look.size
    links = [] if look.link is None else [{"title": "More of this", "url": board_address(look.link)}]
    return {
        "datasource": DATASOURCE,
        "description": text.description,
        "gridPos": {"h": height, "w": width, "x": 0, "y": 0},  # the dashboard places it
        "links": links,
        "targets": [
            {
                "datasource": DATASOURCE,
                "editorMode": "code",
                "expr": query.expression,
                "legendFormat": query.legend,
                "range": True,
                "refId": chr(ord("A") + index),
            }
            for index, query in enumerate(queries)
        ],
        "title": text.title,
        "type": kind,
    }


def _fields(look: Look, custom: Json, overrides: Sequence[Json]) -> Json:
    # An idle fleet has no quantiles: Prometheus answers NaN, and people shall read a word.
    idle = {"options": {"match": "nan", "result": {"index": 0, "text": look.empty}}, "type": "special"}
    defaults = {
        "color": {"mode": "thresholds" if not custom or "drawStyle" not in custom else "palette-classic"},
        "custom": custom,
        "mappings": [idle],
        "min": 0,
        "noValue": look.empty,
        "thresholds": {
            "mode": "absolute",
            "steps": [{"color": colour, "value": value} for value, colour in look.steps],
        },
        "unit": look.unit,
    }
    if look.decimals is not None:
        defaults["decimals"] = look.decimals
    return {"fieldConfig": {"defaults": defaults, "overrides": list(overrides)}}


def board_address(uid: str) -> str:
    """A link that keeps the time range and the choices."""
    return f"/d/{uid}?${{__url_time_range}}&${{datasource:queryparam}}&${{job:queryparam}}&${{instance:queryparam}}"
